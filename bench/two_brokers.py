"""Two brokers of ours beside one: the same clients send to one of them, or to both."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import flood
from bench.brokers import Brokers, cores, several
from bench.peers import SIZES, work_directory
from bench.producers import processor_s
from bench.results import REPOSITORY, Row, Section
from broker.client import Admin, RouteNotFound
from tests.interop.process import Child
from tests.interop.servers import StoreShape, says
from tests.interop.waiting import wait_until

TITLE = "Two brokers beside one"
DEFINITION = (
    "{clients} client processes, each with two connections and {in_flight} sends under way on each (one message of 128 "
    "bytes a request, binary headers); they send frames that were encoded before and look at no more than the code of "
    "an answer. *One*: all connections lead to broker-a; *two*: one connection of each client to broker-a, the other "
    "to broker-b. Both brokers run all the time, a process each, registered at one name service; turns of {seconds} s "
    "after {warm} s of warm-up go one, two, one, two; medians of {turns}. Stores are on one disk. *What the processors "
    "allow*: how many sends a second brokers and clients could make of all processor time that others leave, over the "
    "rate of one: where that is less than the target (few cores, or others at work), the target is not judged."
)
TARGET = 1.6
CLIENTS = 2
START_S, PATIENCE_S = 60, 120
MODES = ("async", "sync")


@dataclass(frozen=True, slots=True)
class Length:
    """How long a run takes."""

    turns: int
    seconds: int
    warm_s: int


FULL, QUICK = Length(4, 15, 5), Length(1, 4, 2)


@dataclass(frozen=True, slots=True)
class Turn:
    """Sends a second by broker; shares of a core that brokers and clients took."""

    rates: Mapping[str, float]
    brokers: float
    clients: Sequence[float]
    #: what all other processes of the machine took of a core meanwhile
    others: float

    @property
    def rate(self) -> float:
        """Sends a second in all."""
        return sum(self.rates.values())

    @property
    def processor_us(self) -> float:
        """Processor time of a send, brokers and clients."""
        return (self.brokers + sum(self.clients)) / self.rate * 1e6


def measure(options: Namespace, at: str) -> Section:
    """Measure both ways of flushing."""
    length = QUICK if options.quick else FULL
    rows: list[Row] = []
    notes = [f"{cores()} cores for brokers and clients together"]
    for mode in MODES:
        one, two = measured(mode, length)
        rows += compared(mode, one, two)
        notes += [described(f"flush {mode}, {name}", turns) for name, turns in (("one", one), ("two", two))]
    definition = DEFINITION.format(
        clients=CLIENTS, in_flight=flood.IN_FLIGHT, seconds=length.seconds, warm=length.warm_s, turns=length.turns
    )
    return Section("two-brokers", TITLE, definition, "python -m bench two-brokers", at, rows, notes, "")


def compared(mode: str, one: list[Turn], two: list[Turn]) -> list[Row]:
    """Return the rates, their ratio, and what the processors allow."""
    rate_of_one, rate_of_two = (statistics.median(turn.rate for turn in turns) for turns in (one, two))
    ratio = rate_of_two / rate_of_one
    allowed = statistics.median((cores() - turn.others) * 1e6 / turn.processor_us for turn in two) / rate_of_one
    holds = True if ratio >= TARGET else None if allowed < TARGET else False
    return [
        Row(f"flush {mode}, one broker", f"{rate_of_one:,.0f} sends/s"),
        Row(f"flush {mode}, two brokers", f"{rate_of_two:,.0f} sends/s"),
        Row("... two / one", f"{ratio:.2f}", "", "", f">= {TARGET} where cores allow", holds),
        Row("... what the processors allow", f"{allowed:.2f}"),
    ]


def described(name: str, turns: list[Turn]) -> str:
    """Return a note: rates of all turns, and what they took of the processors."""
    rates = [round(turn.rate) for turn in turns]
    brokers = statistics.median(turn.brokers for turn in turns)
    busiest = max(share for turn in turns for share in turn.clients)
    cost = statistics.median(turn.processor_us for turn in turns)
    others = statistics.median(turn.others for turn in turns)
    return (
        f"{name}: {rates}; of a core the brokers took {brokers:.0%}, the busiest client {busiest:.0%}, all else on the "
        f"machine {others:.0%}; a send {cost:.0f} us of processor time, brokers and clients"
    )


def measured(mode: str, length: Length) -> tuple[list[Turn], list[Turn]]:
    """Return turns with one broker and with two, one after the other."""
    taken: dict[str, list[Turn]] = {"one": [], "two": []}
    with work_directory() as base, several(2, base, StoreShape(**SIZES, flush=mode), name_services=1) as brokers:
        with Admin(brokers.namesrv) as admin:
            admin.create_topic(flood.TOPIC, queues=flood.QUEUES)
            if not wait_until(lambda: is_routed(admin, brokers.names), timeout_s=START_S):
                raise RuntimeError(f"the name server does not know {flood.TOPIC} of all brokers after {START_S} s")
        for _ in range(length.turns):
            for name, targets in (("one", ["broker-a", "broker-a"]), ("two", ["broker-a", "broker-b"])):
                taken[name].append(turn(brokers, targets, base, length))
                print(f"  flush {mode}, {name}: {taken[name][-1]}", file=sys.stderr)
    return taken["one"], taken["two"]


def turn(brokers: Brokers, targets: list[str], base: Path, length: Length) -> Turn:
    """Have all clients send at the same time."""
    named = [f"{name}={brokers[name].address}" for name in targets]
    command = [sys.executable, "-m", "bench.flood", str(length.seconds), str(length.warm_s), *named]
    before = stored(brokers)
    with ExitStack() as stack:
        clients = [Child(command, log=base / f"flood-{number}.err", cwd=REPOSITORY) for number in range(CLIENTS)]
        for client in clients:
            stack.callback(client.kill)
            client.wait_for(says("ready"), START_S, "a client")
        for client in clients:
            client.say("go")
        time.sleep(length.warm_s)
        begin_s, used_s, machine_s = time.monotonic(), used(brokers), machine_used()
        told = [json.loads(client.wait_for(says("{"), PATIENCE_S, "its rates")) for client in clients]
        took_s = time.monotonic() - begin_s
        share, whole = (used(brokers) - used_s) / took_s, (machine_used() - machine_s) / took_s
    if any(each["refused"] for each in told):
        raise RuntimeError(f"sends were refused: {[each['refused'] for each in told]}")
    answered = sum(each["answered"] for each in told)
    if (kept := stored(brokers) - before) < answered:
        raise RuntimeError(f"{answered:,} sends were answered, {kept:,} messages are there")
    rates = {name: sum(each["rates"].get(name, 0) for each in told) for name in brokers.names}
    clients_shares = [each["core"] for each in told]
    return Turn(rates, share, clients_shares, max(0.0, whole - share - sum(clients_shares)))


def is_routed(admin: Admin, names: Iterable[str]) -> bool:
    """Tell whether the name server has the topic of all of them; a broker registers it once it has made it."""
    try:
        return set(admin.route(flood.TOPIC).addresses) >= set(names)
    except RouteNotFound:
        return False


def stored(brokers: Brokers) -> int:
    """Return how many messages both brokers have."""
    with Admin(brokers.namesrv) as admin:
        return sum(queue.max_offset for queue in admin.topic_stats(flood.TOPIC).queues)


def used(brokers: Brokers) -> float:
    """Return the processor time of all brokers so far, in seconds."""
    return sum(processor_s(server.pid) for server in brokers.servers.values())


def machine_used() -> float:
    """Return the processor time of the whole machine so far, idle and waiting for the disk left out, in seconds."""
    user, nice, system, _, _, *more = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + sum(more)) / os.sysconf("SC_CLK_TCK")
