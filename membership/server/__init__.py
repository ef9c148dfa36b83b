"""An etcd in memory for the processes of one machine: the same gRPC API, so that the same client speaks to it.

``python -m membership.server --help`` says how to start it. It keeps nothing on disk and has no replicas: when it ends,
its contents, leases and revisions are gone, and a new one is another store to its clients.
"""
