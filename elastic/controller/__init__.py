"""The one process per run that serves the client and commands the hosts.

It knows every array and program as plain data; their bytes are on the hosts. It never waits for a device unless the
client does, and holds no JAX.
"""
