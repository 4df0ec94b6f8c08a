"""How soon an open page says that a broker does not answer, and that it does again."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from websockets.asyncio.client import ClientConnection

from bench.brokers import Brokers
from bench.consoles import opened
from bench.installation import Installation

PATIENCE_S = 60
FINDINGS = re.compile(r'<hx-partial\b[^>]*hx-target="#findings".*?</hx-partial>', re.DOTALL)


@dataclass(slots=True)
class Outage:
    """Seconds from a signal to the frame that shows what came of it, a broker each."""

    stopped_s: list[float] = field(default_factory=list)
    again_s: list[float] = field(default_factory=list)
    killed_s: list[float] = field(default_factory=list)


def noticed(one: Installation, session: str, brokers: Brokers, rounds: int, look: Callable[[], None]) -> Outage:
    """Stop brokers and have them go on, from the last one; then kill them. `look` is called while the first is stopped.

    The first broker stays, so that there is always one to be asked.
    """
    return asyncio.run(_noticed(one, session, brokers, rounds, look))


async def _noticed(
    one: Installation, session: str, brokers: Brokers, rounds: int, look: Callable[[], None]
) -> Outage:  # fmt: skip
    found = Outage()
    names = brokers.names[:0:-1][:rounds]
    async with opened(one.base, session, "overview") as socket:
        for number, name in enumerate(names):
            pid = brokers[name].pid
            try:
                found.stopped_s.append(await shown(socket, name, pid, signal.SIGSTOP, is_away=True))
                if number == 0:
                    await asyncio.to_thread(look)
            finally:
                os.kill(pid, signal.SIGCONT)
            found.again_s.append(await shown(socket, name, pid, signal.SIGCONT, is_away=False))
        for name in names:
            found.killed_s.append(await shown(socket, name, brokers[name].pid, signal.SIGKILL, is_away=True))
    print(f"  noticed: {found}", file=sys.stderr)
    return found


async def shown(socket: ClientConnection, name: str, pid: int, number: signal.Signals, *, is_away: bool) -> float:
    """Send a signal to a broker; return the seconds until the page's findings name the broker, or do not any more."""
    os.kill(pid, number)
    begin_s = time.monotonic()
    async with asyncio.timeout(PATIENCE_S):
        while True:
            told = FINDINGS.search(str(await socket.recv()))
            if told and names_as_away(told[0], name) == is_away:
                return time.monotonic() - begin_s


def names_as_away(findings: str, name: str) -> bool:
    """Tell whether one of the findings is that this broker does not answer, or that its rows are old."""
    return bool(re.search(rf"<b>\s*{re.escape(name)}:\s+the (?:broker cannot be reached|mirror has stopped)", findings))
