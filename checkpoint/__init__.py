"""Where bytes survive: snapshots in host memory, peers, parity, the Orbax tier, the re-materialization planner."""
