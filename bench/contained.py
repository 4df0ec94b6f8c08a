"""A broker that may take half a processor, as in a container with a limit, beside Apache RocketMQ with the same one."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from bench.peers import Measured, work_directory
from bench.producers import REPORT_MS
from bench.results import Row, Section, verdict
from bench.table import BATCH, QUICK, THREADS, WORKS, Sizes, Taken, started, worked
from spark.priority import PROC, own_group, share_processors
from tests.interop.servers import SERVERS

TITLE = "With half a processor, beside Apache RocketMQ"
DEFINITION = (
    "What the table at the top says, but the broker's process may take {cores:g} of a processor, as in a container "
    "with such a limit (the kernel's quota, {period} ms of wall time a period); the clients, and Apache RocketMQ's "
    "name server, have no limit. Two brokers take turns while the other one is stopped, with flush async and with "
    "flush sync. The limit is set when both have done everything once without it ({warm} rounds), so that Java is "
    "compiled. Then sends and transactions: {turns} turns each, reports of {report} s, the first {skip} of a turn are "
    "warm-up, {take} count; batches of {batch}, backlog, timers, plain from {threads} threads: {rounds} rounds after "
    "{more} of warm-up, each behind one that does not count. Medians; behind the rate what one message costs the "
    "broker's process, user and system."
)
CORES = 0.5
#: Linux's own, and what containers have where nobody says anything else.
PERIOD_US = 100_000
#: of the rate of Apache RocketMQ, where the table asks for twice of it
WANTED = 1.25
KINDS: Mapping[str, Callable[..., Measured]] = {kind: SERVERS[kind] for kind in ("escapement", "apache")}
COLUMNS = ("Escapement", "Apache RocketMQ", "Ratio", "wanted", "holds")
WARM, FULL = Sizes(1, 2, 1, 300_000, 20_000, 3, 1), Sizes(2, 1, 3, 300_000, 20_000, 2, 5)


def measure(options: Namespace, at: str) -> Section:
    """Measure everything with both ways to flush."""
    warm, sizes = (QUICK, QUICK) if options.quick else (WARM, FULL)
    rows: list[Row] = []
    for flush in ("async", "sync"):
        with work_directory() as base, started(base, flush, KINDS) as servers:
            worked(servers, base, warm)
            with limited(servers.values()):
                taken = worked(servers, base, sizes, first=warm.warm + warm.rounds)
        rows += [row(flush, name, taken) for name in WORKS]
    definition = DEFINITION.format(
        cores=CORES, period=PERIOD_US // 1000, warm=warm.warm + warm.rounds, turns=sizes.turns,
        report=REPORT_MS // 1000, skip=sizes.skip, take=sizes.take, batch=BATCH, threads=THREADS,
        rounds=sizes.rounds, more=sizes.warm,
    )  # fmt: skip
    return Section("contained", TITLE, definition, "python -m bench contained", at, rows, columns=COLUMNS)


@contextmanager
def limited(servers: Iterable[Measured]) -> Iterator[None]:
    """Let each broker's process take ``CORES`` of a processor at most, for a block.

    Raises OSError, LookupError, ValueError where no group of processes can be made: it takes root.
    """
    own, is_unified = own_group(PROC)
    with ExitStack() as stack:
        for server in servers:
            group = own / f"bench-{server.pid}"
            group.mkdir()
            stack.callback(group.rmdir)
            if is_unified:
                share_processors(own, group)
                (group / "cpu.max").write_text(f"{CORES * PERIOD_US:.0f} {PERIOD_US}")
            else:
                (group / "cpu.cfs_period_us").write_text(f"{PERIOD_US}")
                (group / "cpu.cfs_quota_us").write_text(f"{CORES * PERIOD_US:.0f}")
            stack.callback((own / "cgroup.procs").write_text, str(server.pid))
            (group / "cgroup.procs").write_text(str(server.pid))
        yield


def row(flush: str, name: str, taken: Mapping[str, Taken]) -> Row:
    """Return the row of a work."""
    ours, theirs = (taken[kind].rate(name) for kind in KINDS)
    holds = None if name == "plain" else ours / theirs >= WANTED
    cells = (
        *(one.cell(name) for one in taken.values()),
        f"{ours / theirs:.2f}", "" if holds is None else f">= {WANTED}", verdict(holds),
    )  # fmt: skip
    return Row(f"{name}, flush {flush}", "", holds=holds, cells=cells)
