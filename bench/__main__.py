"""`python -m bench [name ...] [--quick]`: measure, print ratios, write docs/BENCHMARKS.md."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime

from bench import (
    apache_mirror,
    choices,
    cluster,
    commits,
    console_cluster,
    consoles,
    consume,
    following,
    lateness,
    many,
    openhalves,
    page,
    pending,
    redisson,
    rest,
    results,
    send,
    spark,
    storage,
    strangers,
    timers,
    transactions,
    two_brokers,
)
from bench.results import keep

MEASUREMENTS = {
    "send": send,
    "lateness": lateness,
    "storage": storage,
    "timers": timers,
    "pending": pending,
    "transactions": transactions,
    "commits": commits,
    "openhalves": openhalves,
    "consume": consume,
    "many": many,
    "strangers": strangers,
    "rest": rest,
    "page": page,
    "consoles": consoles,
    "redisson": redisson,
    "spark": spark,
    "following": following,
    "cluster": cluster,
    "console-cluster": console_cluster,
    "two-brokers": two_brokers,
    "apache-mirror": apache_mirror,
    "choices": choices,
}


def main() -> int:
    """Run the named measurements, or all; the exit code tells whether every target holds."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join(MEASUREMENTS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works; nothing is kept")
    parser.add_argument(
        "--messages", type=int, default=0, help="how many messages `storage` stores, `pending` keeps waiting"
    )
    parser.add_argument(
        "--store",
        default="",
        help="a log for `spark` to read (`python -m bench.spark_log`), stores for `pending` to copy (`bench.filling`)",
    )
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in MEASUREMENTS]
    if unknown:
        parser.error(f"no measurement is called {unknown[0]}")
    holds = True
    for name in options.names or MEASUREMENTS:
        print(f"measuring {name}", file=sys.stderr)
        section = MEASUREMENTS[name].measure(options, datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
        results.show(section)
        holds = holds and all(row.holds is not False for row in section.rows)
        if not options.quick:
            keep(section)
            results.write()
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
