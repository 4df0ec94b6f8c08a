"""`python -m bench [name ...] [--all] [--quick]`: measure, print ratios, write docs/BENCHMARKS.md."""

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
    contained,
    following,
    large,
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
    table,
    timers,
    two_brokers,
)
from bench.results import keep

#: What is measured where nobody says what: all that the table of goals needs beside a peer.
USUAL = {
    "table": table,
    "send": send,
    "timers": timers,
    "consume": consume,
    "lateness": lateness,
    "commits": commits,
    "storage": storage,
    "rest": rest,
    "spark": spark,
}
#: All of it takes hours.
MEASUREMENTS = USUAL | {
    "pending": pending,
    "contained": contained,
    "large": large,
    "openhalves": openhalves,
    "many": many,
    "strangers": strangers,
    "page": page,
    "consoles": consoles,
    "redisson": redisson,
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
    words = f"one of {', '.join(MEASUREMENTS)}; by default {', '.join(USUAL)}"
    parser.add_argument("names", nargs="*", metavar="name", help=words)
    parser.add_argument("--all", action="store_true", help="everything: hours")
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
    for name in options.names or (MEASUREMENTS if options.all else USUAL):
        print(f"measuring {name}", file=sys.stderr)
        section = MEASUREMENTS[name].measure(options, datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
        results.show(section)
        holds = holds and all(row.holds is not False for row in section.rows)
        if not options.quick:
            keep(section)
            results.write(section)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
