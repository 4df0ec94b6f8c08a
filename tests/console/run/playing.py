"""The demonstration played in a thread, on days that are made here."""

from __future__ import annotations

import asyncio
import csv
import threading
from pathlib import Path

from console.run import flights
from console.run.replay import Options, Replay

COLUMNS = ("sched_dep_time", "dep_delay", "carrier", "flight", "tailnum", "origin", "dest", "air_time", "distance")


def write_days(directory: Path) -> Path:
    """A var/demo with days of 144 flights each, ready cut: each 20th is cancelled, all others are five minutes late."""
    days = directory / "days"
    days.mkdir(parents=True)
    for day in range(1, 20):
        with (days / f"2013-01-{day:02}.csv").open("w", newline="") as opened:
            writer = csv.writer(opened)
            writer.writerow(COLUMNS)
            for number in range(144):
                clock = f"{number // 6}{number % 6}0"
                writer.writerow(
                    [clock, "" if number % 20 == 0 else "5", "UA", number, "N1", "EWR", "IAH", "100", "700"]
                )
    (days / flights.COMPLETE).touch()
    return directory


class Run:
    """A replay in a thread; its lines can be waited for."""

    def __init__(self, options: Options) -> None:
        self._told: list[str] = []
        self._heard = threading.Condition()
        self._options = options
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Run:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *failure: object) -> None:
        self._loop.call_soon_threadsafe(self._replay.end)
        self._thread.join(20)
        assert not self._thread.is_alive()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._replay = Replay(self._options, self._options.directory / "days", self._tell)
        self._ready.set()
        await self._replay.run()

    def _tell(self, line: str) -> None:
        with self._heard:
            self._told.append(line)
            self._heard.notify_all()

    def says(self, words: str) -> None:
        with self._heard:
            assert self._heard.wait_for(lambda: any(words in line for line in self._told), 20), self._told
