"""Proof by faults: plans, the runner, the checkers, the report."""
