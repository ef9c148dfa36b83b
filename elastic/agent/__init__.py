"""The long-lived process of a host: starts executors, kills them, tells the controller what became of them.

Imports no JAX: it must stay responsive and small whatever the devices do.
"""
