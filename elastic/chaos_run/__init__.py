"""Carries out what `chaos` plans: scripts under `elastic run` whose hosts are killed, frozen and healed.

Real processes, all of them on this machine and of this user. Not for: what is planned, what is checked and what is
shown, which the package `chaos` knows.
"""
