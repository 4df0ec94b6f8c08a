"""What a broker does all day, bare and in the house, beside Apache RocketMQ: one table of one run."""

from __future__ import annotations

import os
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.disk import bare_syncs
from bench.house import House
from bench.memory import fill
from bench.peers import SIZES, Measured, work_directory
from bench.producers import (
    PLAIN,
    REPORT_MS,
    SKIP,
    TAKE,
    TRANSACTIONS,
    Turn,
    client_us_of,
    processor_s,
    processor_us_of,
    rate_of,
    turn,
)
from bench.results import Row, Section, verdict
from bench.timers import Load
from broker.rocketmq.compiled import FAST
from tests.interop.programs import Program
from tests.interop.readiness import await_registration
from tests.interop.servers import SERVERS, StoreShape

TITLE = "Bare and in the house, beside Apache RocketMQ"
DEFINITION = (
    "Three brokers take turns, with flush async and with flush sync: ours by itself (*bare*), "
    "ours with all that `make run` starts but the demonstration (*house*: PostgreSQL, Valkey, mirror, web, jobs), "
    "and Apache RocketMQ. While one has its turn the processes of the others and their clients are stopped (SIGSTOP), "
    "as what a broker does after its turn would be taken from the next one; before each, and between backlog and "
    "timers, free memory is filled anew. "
    "*Sends*: `org.apache.rocketmq.example.benchmark.Producer -w 64 -s 128`; *transactions*: its "
    "`TransactionProducer -w 32 -s 128`, everything committed immediately, after all else; {turns} turns each, "
    "reports of {report} s, the first {skip} of a turn are warm-up, {take} count, medians. "
    "*Batches*: {batch_count:,} messages, {batch} a "
    "request, from {threads} threads of RocketMQ's Java client that wait for each answer; *backlog*: the same "
    "messages taken by a new group, from the first arrival in a handler to the last; *timers*: {accepted:,} timers "
    "due in a day from {threads} threads, *plain*: as many plain messages. Of these four a turn has one round each, "
    "behind a round of batches and backlog, and one of plain messages, that do not count: who stood still for half a "
    "minute finds neither his memory nor the caches as they were. "
    "Medians of {rounds} rounds after {warm} of warm-up. Bodies of 128 bytes. "
    "Behind the rate stands what one message costs the broker's process, user and system. *At most* is the ratio to "
    "Apache RocketMQ that a broker would reach which took no processor: all {cores} cores would be the client's, which "
    "takes as much for a message as it took beside the cheapest of the three."
)
BATCH, THREADS = 50, 16
REGISTRATION_S = 60
KINDS: Mapping[str, Callable[..., Measured]] = {
    "escapement": SERVERS["escapement"],
    "house": House,
    "apache": SERVERS["apache"],
}
#: Name, title and command of a run in Python alone, and of one with the compiled twins.
FORMS = (("table-python", "in Python alone", "ESCAPEMENT_FAST=0 "), ("table", "with compiled twins", ""))
WORKS = ("sends", "transactions", f"batches of {BATCH}", "backlog", "timers", "plain")
#: What is wanted of the ratio bare / Apache RocketMQ.
WANTED = {"sends": 2.25, "transactions": 2.0, f"batches of {BATCH}": 2.0, "backlog": 2.0, "timers": 2.0}
COLUMNS = ("bare", "in the house", "Apache RocketMQ", "bare / Apache", "house / Apache", "at most", "wanted", "holds")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How often, and how much."""

    turns: int
    skip: int
    take: int
    batch_count: int
    accepted: int
    #: those at first that do not count, while Java still compiles the client, and those that do
    warm: int
    rounds: int


FULL = Sizes(2, SKIP, TAKE, 300_000, 40_000, 4, 5)
QUICK = Sizes(1, 1, 1, 20_000, 5_000, 1, 1)


@dataclass(slots=True)
class Taken:
    """The figures of one broker, by work."""

    turns: dict[str, list[Turn]] = field(default_factory=dict)

    def note(self, name: str, one: Turn) -> None:
        """Keep the figures of a turn."""
        self.turns.setdefault(name, []).append(one)

    def rate(self, name: str) -> float:
        """Return the median rate of a work, a second."""
        return rate_of(self.turns[name])

    def cell(self, name: str) -> str:
        """Return the rate, and what one message costs the broker's process, as they stand in a table."""
        return f"{self.rate(name):,.0f} /s, {processor_us_of(self.turns[name]):.0f} us"


def measure(options: Namespace, at: str) -> Section:
    """Measure everything with both ways to flush."""
    sizes = QUICK if options.quick else FULL
    rows: list[Row] = []
    notes: list[str] = []
    for flush in ("async", "sync"):
        with work_directory() as base:
            if flush == "sync":
                notes.append(bare_syncs(base))
            with started(base, flush, KINDS) as servers:
                taken = worked(servers, base, sizes)
        rows += [row(flush, name, taken) for name in WORKS]
        shares = ", ".join(f"{kind} {each.rate('timers') / each.rate('plain'):.2f}" for kind, each in taken.items())
        notes.append(f"flush {flush}, timers / plain: {shares}")
    definition = DEFINITION.format(
        turns=sizes.turns, report=REPORT_MS // 1000, skip=sizes.skip, take=sizes.take, batch_count=sizes.batch_count,
        batch=BATCH, threads=THREADS, accepted=sizes.accepted, rounds=sizes.rounds, warm=sizes.warm,
        cores=os.cpu_count(),
    )  # fmt: skip
    name, how, command = FORMS[FAST is not None]
    return Section(
        name, f"{TITLE}, {how}", definition, f"{command}python -m bench table", at, rows, notes, columns=COLUMNS
    )


def worked(servers: Mapping[str, Measured], base: Path, sizes: Sizes, first: int = 0) -> dict[str, Taken]:
    """Return what each of some brokers did, one after the other while the others are stopped; `first`: the number of
    the first round's topic."""
    taken = {kind: Taken() for kind in servers}
    for _ in range(sizes.turns):
        for kind, server in in_turns(servers, base):
            taken[kind].note("sends", turn(PLAIN, server, base, skip=sizes.skip, take=sizes.take))
    with ExitStack() as stack:
        clients: dict[str, Clients] = {}
        for kind, server in servers.items():
            clients[kind] = Clients(server, base)
            stack.callback(clients[kind].end)
        for number in range(sizes.warm + sizes.rounds):
            for kind, server in in_turns(servers, base, clients):
                # who stood still for half a minute finds neither his memory nor the caches as they were
                flow(server, clients[kind].flow, sizes, f"Awake{first + number}")
                done = flow(server, clients[kind].flow, sizes, f"Stored{first + number}")
                fill(base)
                clients[kind].load.accept(sizes.accepted, 0)
                done |= timers(server, clients[kind].load, sizes)
                if number >= sizes.warm:
                    for name, one in done.items():
                        taken[kind].note(name, one)
    # last, as Apache RocketMQ takes a core for a minute and more after them
    for _ in range(sizes.turns):
        for kind, server in in_turns(servers, base):
            taken[kind].note("transactions", turn(TRANSACTIONS, server, base, skip=sizes.skip, take=sizes.take))
    return taken


class Clients:
    """The Java programs of one broker, which stay as long as it does: they compile themselves while they run."""

    def __init__(self, server: Measured, base: Path) -> None:
        self.flow = Program("FlowLoad", [server.namesrv, server.address], version="5.5.0", work=base, fast_start=False)
        self.load = Load(server, base)

    @property
    def pids(self) -> list[int]:
        """The processes of both programs."""
        return [program.child.pid for program in (self.flow, self.load.program)]

    def end(self) -> None:
        """Stop both programs, also where they stand still."""
        tell(self.pids, signal.SIGCONT)
        self.flow.child.kill()
        self.load.end()


def in_turns(
    servers: Mapping[str, Measured], base: Path, clients: Mapping[str, Clients] | None = None
) -> Iterator[tuple[str, Measured]]:
    """Yield one broker after the other, while the others and their clients are stopped and memory is full."""
    for kind, server in servers.items():
        others = [pid for other in servers.values() if other is not server for pid in processes(other)]
        others += [pid for other, programs in (clients or {}).items() if other != kind for pid in programs.pids]
        tell(others, signal.SIGSTOP)
        try:
            fill(base)
            # one that stood still for long is forgotten by its name server until it says again that it is there
            await_registration(server.namesrv, REGISTRATION_S)
            yield kind, server
        finally:
            tell(reversed(others), signal.SIGCONT)


def processes(server: Measured) -> list[int]:
    """Return the processes of a broker, those that started others first."""
    return server.pids if isinstance(server, House) else [server.pid]


def tell(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to all processes that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@contextmanager
def started(base: Path, flush: str, kinds: Mapping[str, Callable[..., Measured]]) -> Iterator[dict[str, Measured]]:
    """Start brokers of these kinds."""
    with ExitStack() as stack:
        servers: dict[str, Measured] = {}
        for kind, make in kinds.items():
            directory = base / f"{kind}-{flush}"
            server = make(directory / "store", directory / "work", StoreShape(**SIZES, flush=flush, heap="2g"))
            servers[kind] = server
            stack.callback(server.kill)
            server.start()
        yield servers


def flow(server: Measured, program: Program, sizes: Sizes, topic: str) -> dict[str, Turn]:
    """Store batches, and take what was stored."""
    done: dict[str, Turn] = {}
    for name, until, fields in (
        (f"batches of {BATCH}", "sent", ("batch", topic, sizes.batch_count, BATCH, THREADS)),
        ("backlog", "drained", ("drain", topic, f"readers-{topic}", sizes.batch_count, "pull")),
    ):
        begin_s = spent(server, program)
        told = program.ask(*fields, until=until, timeout_s=600)[-1]
        print(f"  {server.name} {fields}: {told}", file=sys.stderr)
        if told.get("lost", 0) or told.get("twice", 0):
            raise RuntimeError(f"{server.name} lost messages, or gave them twice: {told}")
        count, failed = told["count"], told.get("failed", 0)
        rate = (count - failed) / told["elapsedMs"] * 1_000
        done[name] = Turn([rate], failed, *each(begin_s, server, program, count))
    return done


def timers(server: Measured, load: Load, sizes: Sizes) -> dict[str, Turn]:
    """Take timers, then plain messages."""
    done: dict[str, Turn] = {}
    for name, delay_s in (("timers", 86_400), ("plain", 0)):
        begin_s = spent(server, load.program)
        rate = load.accept(sizes.accepted, delay_s)
        done[name] = Turn([rate], 0, *each(begin_s, server, load.program, sizes.accepted))
    return done


def spent(server: Measured, program: Program) -> tuple[float, float]:
    """Return the processor time of broker and client so far, in seconds."""
    return processor_s(server.pid), processor_s(program.child.pid)


def each(begin_s: tuple[float, float], server: Measured, program: Program, count: int) -> Iterator[float]:
    """Yield what one of `count` messages cost broker and client since then, in microseconds."""
    for now_s, at_s in zip(spent(server, program), begin_s, strict=True):
        yield (now_s - at_s) * 1e6 / count


def row(flush: str, name: str, taken: Mapping[str, Taken]) -> Row:
    """Return the row of a work."""
    bare, house, apache = (taken[kind].rate(name) for kind in KINDS)
    client_us = min(client_us_of(one.turns[name]) for one in taken.values())
    at_most = (os.cpu_count() or 1) * 1e6 / client_us / apache
    wanted = WANTED.get(name)
    holds = None if wanted is None else bare / apache >= wanted
    cells = (
        *(one.cell(name) for one in taken.values()),
        f"{bare / apache:.2f}", f"{house / apache:.2f}", f"{at_most:.2f}", "" if wanted is None else f">= {wanted}",
        verdict(holds),
    )  # fmt: skip
    return Row(f"{name}, flush {flush}", "", holds=holds, cells=cells)
