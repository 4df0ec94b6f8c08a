"""One store that goes from version to version while clients of all kinds send, receive, cancel and decide."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from broker.engine.disk import OsFiles
from broker.engine.fsck.store import check_store
from tests.interop.servers import served
from tests.reliability.checker import Verdict, check
from tests.reliability.history import Recorder, now_ms
from tests.reliability.lives import Promises
from tests.reliability.rig import SHAPE, Lasting
from tests.reliability.run import settle
from tests.reliability.workload import Clients, read_topics
from tests.upgrade.versions import Version, VersionedServer

#: How long a version serves before the next one does.
TURN_S = 4.0


@dataclass(frozen=True, slots=True)
class Turn:
    """A version that serves the store next; None: this checkout's. Before it the one before is stopped, or killed."""

    version: Version | None
    is_killed: bool = False


@dataclass(frozen=True, slots=True)
class Crossing:
    """What came of one."""

    turns: Sequence[str]
    took_s: float
    verdict: Verdict

    def line(self) -> str:
        """One line: which versions, the counts, the violations."""
        numbers = ", ".join(f"{name} {count:,}" for name, count in sorted(self.verdict.counts.items()) if count)
        wrong = ", ".join(f"{kind} {count}" for kind, count in sorted(self.verdict.kinds().items())) or "none"
        return f"{' -> '.join(self.turns)}: {numbers}; {self.took_s:.0f} s; violations: {wrong}"


async def cross(turns: Sequence[Turn], seed: int, place: Path, promises: Promises) -> Crossing:
    """Have these versions serve one store, one after the other, under load; the last one is asked what it holds."""
    began_s = time.monotonic()
    recorder = Recorder(place / "history.jsonl")
    server = VersionedServer(place / "store", place / "broker", SHAPE)
    knows_keys = all(turn.version is None or turn.version.knows_keys for turn in turns)
    server.become(turns[0].version, place / "versions")
    names, lasting = [server.version], Lasting()
    with served(server):
        clients = Clients(server.namesrv, recorder, seed, knows_keys=knows_keys)
        try:
            await clients.prepare()
            await clients.start()
            await lasting(TURN_S)
            for turn in turns[1:]:
                await _hand_over(server, turn, place / "versions", recorder)
                names.append(f"{'(killed) ' if turn.is_killed else ''}{server.version}")
                await lasting(TURN_S)
            await clients.stop_sending()
            await settle(recorder, clients, promises, lasting)
            await read_topics(server.namesrv, recorder, knows_keys=knows_keys)
        finally:
            await clients.close()
            recorder.close()
        await asyncio.to_thread(server.stop)
    report = check_store(OsFiles(), str(server.root))
    if not report.is_sound:
        recorder.note("rig", "health", "store", said=f"{report.damages[:3]}")
    return Crossing(names, time.monotonic() - began_s, check(recorder.events, promises))


async def _hand_over(server: VersionedServer, turn: Turn, place: Path, recorder: Recorder) -> None:
    """Stop or kill the version that serves, and start the next one on its store."""
    begin_ms = now_ms()
    status = await asyncio.to_thread(server.kill if turn.is_killed else server.stop)
    if not turn.is_killed and status != 0:
        recorder.note("rig", "health", "stop", said=f"{server.version} ended with {status} when it was asked to")
    server.become(turn.version, place)
    await asyncio.to_thread(server.start)
    kind = "kill" if turn.is_killed else "restart"
    recorder.note("rig", "fault", kind, call_ms=begin_ms, amount_ms=0)
