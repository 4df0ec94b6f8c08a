"""`python -m tests.reliability escapement --seed 1 --runs 20`: one line a run."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from pathlib import Path

from tests.reliability.checker import check
from tests.reliability.faults import KINDS
from tests.reliability.history import read
from tests.reliability.run import PROMISES, Course, forget, live


def main(arguments: list[str] | None = None) -> int:
    """Run some seeds; 1 if a promise was not kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.reliability", description=__doc__)
    parser.add_argument("broker", choices=("escapement", "apache"))
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--runs", type=int, default=1, help="so many seeds, one after the other")
    parser.add_argument("--faults", type=int, default=5, help="faults of a run")
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of faults to draw from")
    parser.add_argument("--flush", choices=("sync", "async"), default="sync")
    parser.add_argument("--java", action="store_true", help="have official Java clients take part")
    parser.add_argument("--together", action="store_true", help="have two faults come together")
    parser.add_argument("--members", type=int, default=1, help="members of a group; all but one come and go")
    parser.add_argument("--keep", type=Path, help="where histories go; all are kept there")
    parser.add_argument("--history", type=Path, help="judge this history again, and run nothing")
    options = parser.parse_args(arguments)
    if options.history is not None:
        return judge(options.history, options.broker)
    # what clients say of a broker that is away would bury the lines
    logging.basicConfig(level=logging.CRITICAL)
    kinds = tuple(kind for kind in options.kinds.split(",") if kind)
    base = options.keep or Path(tempfile.mkdtemp(prefix="escapement-lives-"))
    failed = 0
    for seed in range(options.seed, options.seed + options.runs):
        course = Course(
            options.broker, seed, options.faults, kinds, options.flush, options.java, options.together, options.members
        )
        work = base / f"{options.broker}-{options.flush}-{seed}"
        work.mkdir(parents=True, exist_ok=True)
        report = asyncio.run(live(course, work))
        failed += bool(report.verdict.violations)
        sys.stdout.write((report.details() if report.verdict.violations else report.line()) + "\n")
        sys.stdout.flush()
        if not report.verdict.violations and options.keep is None:
            forget(report)
    return 1 if failed else 0


def judge(history: Path, broker: str) -> int:
    """Judge what was recorded; 1 if a promise was not kept."""
    with history.open() as lines:
        verdict = check(list(read(lines)), PROMISES[broker])
    for violation in verdict.violations:
        sys.stdout.write(f"{violation}\n")
    counted = ", ".join(f"{name} {count:,}" for name, count in sorted(verdict.counts.items()) if count)
    wrong = ", ".join(f"{kind} {count}" for kind, count in sorted(verdict.kinds().items())) or "none"
    sys.stdout.write(f"{counted}; violations: {wrong}\n")
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main())
