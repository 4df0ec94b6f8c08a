"""One flight, and the flights of one day. Times are minutes since the year began, by the clock at the airport."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

DAY_MINUTES = 24 * 60
FIRST_DAY = date(2013, 1, 1)
YEAR_DAYS = 365
YEAR_MINUTES = YEAR_DAYS * DAY_MINUTES


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
    """Minutes from gate to gate; of a diverted flight an estimate of 8 miles a minute and half an hour."""
    if row["air_time"]:
        return int(float(row["air_time"])) + 20
    return int(float(row["distance"])) // 8 + 30
