"""The disposable process of a host that owns the PJRT client and runs compiled programs.

An executor is crash-only: after any failure of its world it is killed and another one, forked from a template that has
JAX imported already, takes its place. Nothing here repairs a world.
"""
