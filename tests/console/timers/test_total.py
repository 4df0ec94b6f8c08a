"""What several brokers tell of their timers, added up: unit by unit, without any broker."""

from __future__ import annotations

from dataclasses import replace

from console.features.timers import total
from console.features.timers.shapes import (
    Forecast,
    Herd,
    Lateness,
    Stretch,
    TimerFigures,
    TimerFilter,
    TimerList,
    TimersPage,
    TopicTimers,
    WheelSlot,
)
from console.site.evidence import Evidence, StaleReason

NOW = 1_795_247_527_000
SAID = Evidence("broker-a", NOW, True)


def stretch(*counts: int, size_bytes: int | None = 10) -> Stretch:
    slots = (WheelSlot(NOW + at * 1_000, count, size_bytes) for at, count in enumerate(counts))
    return Stretch(NOW, 1_000, tuple(slots))


def page(broker: str, figures: TimerFigures, **more: object) -> TimersPage:
    nothing = TimerList(SAID, NOW, TimerFilter(), ())
    made = TimersPage(replace(SAID, source=broker), NOW, broker, "1m", None, figures, (), 0, None, nothing, None, None)
    return replace(made, **more)  # type: ignore[arg-type]  # fields by name


def test_counts_are_added_and_moments_are_the_earliest() -> None:
    several = [
        TimerFigures(paused=False, pending=3, next_due_ms=NOW + 5, max_delay_ms=9, capacity_per_s=10.0),
        TimerFigures(paused=True, pending=4, next_due_ms=NOW + 2, max_delay_ms=7),
        TimerFigures(pending=None),
    ]
    found = total.figures_of(several, None)
    assert (found.pending, found.next_due_ms, found.max_delay_ms, found.capacity_per_s) == (7, NOW + 2, 7, 10.0)
    assert found.paused is False
    assert found.early_total is None
    assert total.figures_of(several[1:], None).paused is True


def test_lateness_of_several_is_read_from_all_buckets() -> None:
    early, late = Lateness("a", 9, 1.0, 1.0, 0.9, ((1.0, 9),)), Lateness("b", 1, 50.0, 50.0, 44.0, ((50.0, 1),))
    found = total.together([early, late])
    assert found == Lateness("", 10, 1.0, 50.0, 44.0, ((1.0, 9), (50.0, 1)))
    assert total.together([late]) is late
    assert total.together([]) is None


def test_slots_are_added_one_by_one_and_bytes_are_known_where_all_are() -> None:
    found = total.stretch_of_all([stretch(1, 0, 2), stretch(4, 5, 0), stretch(0, 0, 1, size_bytes=None)])
    assert [slot.count for slot in found.slots] == [5, 5, 3]
    assert {slot.size_bytes for slot in found.slots} == {None}
    assert [slot.size_bytes for slot in total.stretch_of_all([stretch(1), stretch(2)]).slots] == [20]


def test_a_page_in_total_names_who_is_polled_paused_and_away() -> None:
    herd = Herd(NOW + 9_000, 100, 2_000, (("orders", 100),))
    bills = TopicTimers("bills", 5)
    other = replace(herd, count=40, last_late_ms=900, topics=(("orders", 40),))
    pages = [
        page(
            "broker-a", TimerFigures(paused=True, pending=1), topics=(TopicTimers("orders", 1), bills),
            forecast=Forecast(SAID, stretch(1, 2), 50.0, (herd,)),
        ),
        page(
            "broker-b", TimerFigures(paused=False, pending=2), topics=(TopicTimers("orders", 7),),
            forecast=Forecast(SAID, stretch(3, 4), 30.0, (other,)),
        ),
        page("broker-c", TimerFigures(pending=3), polled=True),
        page("broker-d", TimerFigures(), evidence=Evidence("broker-d", None, True, StaleReason.BROKER_SLOW)),
    ]  # fmt: skip
    found = total.page_of_all(pages, "4 brokers", pages[0].first)
    assert (found.figures.pending, found.polled, found.polled_of) == (6, False, ("broker-c",))
    assert (found.paused_of, found.is_partly_paused) == (("broker-a",), True)
    assert found.evidence.stale_of == ("broker-d",)
    assert [(row.topic, row.pending) for row in found.topics] == [("orders", 8), ("bills", 5)]
    assert found.forecast is not None
    assert (found.forecast.capacity_per_s, [slot.count for slot in found.forecast.stretch.slots]) == (80.0, [4, 6])
    assert found.forecast.herds == (Herd(NOW + 9_000, 140, 2_000, (("orders", 140),)),)
