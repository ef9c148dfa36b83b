"""JAX's own test-suite through the platform, beside plain CPU.

Wants a checkout of the JAX repository at the tag of the installed jaxlib, and an environment of its own, since JAX's
tests ask for older tools than ours (from a clone of this repository):

    python3 -m venv .conformance && . .conformance/bin/activate && pip install -e '.[conformance]'
    git clone --depth 1 --branch jax-v0.10.2 https://github.com/jax-ml/jax ../jax
    python -m tests.conformance ../jax --quick

Test files of other projects run in the same way, by their paths in a checkout of theirs:

    python -m tests.conformance ../optax --files optax/_src/sharding_test.py

Exit code 0 if at least 98% of what passes on plain CPU passes here, without what `waivers.txt` excuses.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.conformance.report import HEADER, WAIVERS, Comparison, read_waivers, share
from tests.conformance.suite import FILES, QUICK, path_of, run_file

_TO_REACH = 0.98


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="a checkout of the JAX repository, or of another")
    parser.add_argument(
        "--files", help="JAX's test files without _test.py, or paths, with commas (default: all that concern devices)"
    )
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--devices-per-host", type=int, default=2)
    parser.add_argument("--limit", type=float, default=1800, help="seconds for one file (default 1800)")
    parser.add_argument("--kill-every", type=float, default=0.0, metavar="SECONDS", help="meanwhile, kill an executor")
    parser.add_argument("--out", type=Path, help="write counts and lost tests as JSON")
    options = parser.parse_args()
    names = options.files.split(",") if options.files else QUICK if options.quick else FILES
    missing = [path_of(name) for name in names if not (options.checkout / path_of(name)).exists()]
    if missing:
        parser.error(f"{options.checkout} has no {missing[0]}: it is no checkout of JAX, or of another version")
    waivers = read_waivers(WAIVERS.read_text(encoding="utf-8"))
    pool = (options.hosts, options.devices_per_host)
    comparisons = []
    print(HEADER, flush=True)
    for name in names:
        plain = run_file(options.checkout, name, None, options.limit)
        ours = run_file(options.checkout, name, pool, options.limit, options.kill_every)
        comparisons.append(Comparison(name, plain, ours, waivers))
        print(comparisons[-1].row(), flush=True)
    print()
    for comparison in comparisons:
        for test, error in comparison.lost.items():
            print(f"lost  {comparison.name}:{test}  {error}")
    reached = share(comparisons)
    if options.kill_every:
        print(f"{sum(comparison.ours.kills for comparison in comparisons)} executors were killed meanwhile")
    print(f"{reached:.2%} of what passes on plain CPU passes through the platform ({_TO_REACH:.0%} to reach)")
    if options.out:
        files = [comparison.as_json() for comparison in comparisons]
        options.out.write_text(json.dumps({"pool": pool, "share": reached, "files": files}, indent=1))
    return 0 if reached >= _TO_REACH else 1


if __name__ == "__main__":
    sys.exit(main())
