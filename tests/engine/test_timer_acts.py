"""Halves that act on a timer: it is cancelled or moved when they are committed, and of one key the last half counts."""

from __future__ import annotations

import pytest

from broker.engine.errors import TimerIllegal, TimerTooFar
from broker.engine.fsck.store import check_store
from broker.engine.log.ticket import Ticket
from broker.engine.testing import Driver, PowerLoss, SimulatedFiles
from broker.engine.timer.steer import Target
from broker.rocketmq.topics import TIMER_TOPIC
from tests.engine.transacting import begin, end, end_soon, transacting

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
KEY = "invoice 4711"
TOO_FAR_MS = 20 * 365 * DAY_MS


def put(driver: Driver, body: bytes = b"pay!", after_ms: int = HOUR_MS, key: str = KEY) -> Ticket:
    """A plain timer."""
    due = str(driver.clock.now_ms + after_ms)
    return driver.send(
        "orders", body, UNIQ_KEY=f"P{driver.clock.now_ms}{body.hex()}", TIMER_DELIVER_MS=due, ESC_SCHEDULE_KEY=key,
        ESC_ON_CONFLICT="replace",
    )  # fmt: skip


def put_half(driver: Driver, unique: str, after_ms: int = HOUR_MS, key: str = KEY) -> Ticket:
    more = {"TIMER_DELAY_MS": str(after_ms), "ESC_SCHEDULE_KEY": key, "ESC_ON_CONFLICT": "replace"}
    return begin(driver, unique.encode(), key=unique, **more)


def cancel_half(driver: Driver, unique: str, key: str = KEY) -> Ticket:
    return begin(driver, b"cancel", key=unique, ESC_SCHEDULE_KEY=key, ESC_TIMER_ACT="cancel")


def move_half(driver: Driver, unique: str, after_ms: int, key: str = KEY) -> Ticket:
    more = {"TIMER_DELAY_MS": str(after_ms), "ESC_SCHEDULE_KEY": key, "ESC_TIMER_ACT": "move"}
    return begin(driver, b"move", key=unique, **more)


def waiting(driver: Driver) -> dict[str, int]:
    """What waits, as body: ms from now."""
    states = driver.engine.timers.states
    parked = driver.readable(TIMER_TOPIC)
    return {
        parked[offset].body.decode(): int(parked[offset].properties["ESC_DUE_MS"]) - driver.clock.now_ms
        for offset in states.not_over(0, states.end_offset)
        if states.waits(offset)
    }


@pytest.mark.parametrize("commit", [True, False])
def test_a_cancel_is_done_with_the_commit_and_not_before(commit: bool) -> None:
    driver = transacting()
    put(driver)
    half = cancel_half(driver, "A1")
    assert waiting(driver) == {"pay!": HOUR_MS}
    assert end(driver, half, commit=commit)
    assert waiting(driver) == ({} if commit else {"pay!": HOUR_MS})
    driver.advance(2 * HOUR_MS)
    assert driver.bodies("orders") == ([] if commit else [b"pay!"])


@pytest.mark.parametrize("commit", [True, False])
def test_a_move_is_done_with_the_commit_and_not_before(commit: bool) -> None:
    driver = transacting()
    sent = put(driver)
    half = move_half(driver, "A1", 5 * HOUR_MS)
    driver.clock.advance(60_000)
    assert end(driver, half, commit=commit)
    # the delay counts from the commit
    assert waiting(driver) == {"pay!": 5 * HOUR_MS if commit else HOUR_MS - 60_000}
    driver.advance(5 * HOUR_MS)
    (message,) = driver.readable("orders").values()
    assert (message.body, message.unique_key) == (b"pay!", sent.unique_key)


def test_a_commit_shows_no_message_and_is_told_once() -> None:
    driver = transacting()
    put(driver)
    half = cancel_half(driver, "A1")
    assert end(driver, half, commit=True)
    records = len(driver.readable(TIMER_TOPIC))
    assert end(driver, half, commit=True) is False
    with pytest.raises(Exception, match="a decision is final"):
        end(driver, half, commit=False)
    assert len(driver.readable(TIMER_TOPIC)) == records
    driver.advance(2 * HOUR_MS)
    assert driver.bodies("orders") == []
    assert driver.engine.timers.states.totals.cancelled == 1


def test_what_was_delivered_stays_delivered() -> None:
    driver = transacting()
    put(driver, after_ms=1_000)
    halves = [cancel_half(driver, "A1"), move_half(driver, "A2", HOUR_MS)]
    driver.advance(2_000)
    for half in halves:
        assert end(driver, half, commit=True)
    driver.advance(2 * HOUR_MS)
    assert driver.bodies("orders") == [b"pay!"]
    assert waiting(driver) == {}


def test_a_move_to_a_moment_that_is_over_delivers_at_once() -> None:
    driver = transacting()
    put(driver)
    half = begin(driver, b"move", key="A1", TIMER_DELIVER_MS=str(driver.clock.now_ms + 1_000), ESC_SCHEDULE_KEY=KEY,
                 ESC_TIMER_ACT="move")  # fmt: skip
    driver.clock.advance(5_000)
    assert end(driver, half, commit=True)
    driver.advance(1)
    assert driver.bodies("orders") == [b"pay!"]
    driver.advance(2 * HOUR_MS)
    assert driver.bodies("orders") == [b"pay!"]


def test_a_key_of_another_topic_is_left_alone() -> None:
    driver = transacting()
    driver.engine.topics.ensure("returns", 1)
    put(driver)
    ticket = driver.append("returns", b"cancel", UNIQ_KEY="A1", TRAN_MSG="true", PGROUP="payers", ESC_SCHEDULE_KEY=KEY,
                           ESC_TIMER_ACT="cancel")  # fmt: skip
    driver.settle()
    assert end(driver, ticket, commit=True)
    assert waiting(driver) == {"pay!": HOUR_MS}


# One transaction that speaks of a key more than once; transactions that race.


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "one by one"])
@pytest.mark.parametrize("backwards", [False, True], ids=["in order", "backwards"])
@pytest.mark.parametrize(
    ("acts", "left"),
    [
        ("put cancel", {}),
        ("cancel put", {"2": HOUR_MS}),
        ("put put", {"2": HOUR_MS}),
        ("put move", {"1": 9 * HOUR_MS}),
        ("move cancel", {}),
        ("cancel move", {}),
        ("put cancel put", {"3": HOUR_MS}),
    ],
)
def test_halves_of_one_key_count_in_the_order_in_which_they_were_sent(
    acts: str, left: dict[str, int], backwards: bool, together: bool
) -> None:
    driver = transacting()
    make = {
        "put": put_half,
        "cancel": cancel_half,
        "move": lambda driver, unique: move_half(driver, unique, 9 * HOUR_MS),
    }
    halves = [make[act](driver, str(number)) for number, act in enumerate(acts.split(), 1)]
    for half in reversed(halves) if backwards else halves:
        end_soon(driver, half, commit=True)
        if not together:
            driver.settle()
    driver.settle()
    assert waiting(driver) == left


@pytest.mark.parametrize("stop", [None, "clean", "kill"])
def test_a_half_that_was_decided_long_ago_is_known_after_a_start(stop: str | None) -> None:
    files = SimulatedFiles()
    driver = transacting(files)
    first, second, third = put_half(driver, "1"), put_half(driver, "2"), move_half(driver, "3", 5 * HOUR_MS)
    assert end(driver, second, commit=True)
    if stop == "clean":
        driver.close()
    if stop is not None:
        driver = transacting(files if stop == "clean" else files.crash(PowerLoss("kill")), clock=driver.clock)
    assert end(driver, third, commit=True)
    assert end(driver, first, commit=True)
    assert waiting(driver) == {"2": 5 * HOUR_MS}


@pytest.mark.parametrize("restart", [True, False])
def test_a_timer_that_a_person_moves_on_still_says_that_a_half_only_moved_it(restart: bool) -> None:
    files = SimulatedFiles()
    driver = transacting(files)
    put(driver)
    first, second = put_half(driver, "1"), move_half(driver, "2", 5 * HOUR_MS)
    assert end(driver, second, commit=True)
    due_ms = driver.clock.now_ms + 8 * HOUR_MS
    target = Target(topic="orders", schedule_key=KEY)
    moved = driver.engine.steer_timer(
        "reschedule", target, due_ms=due_ms, reason="", now_ms=driver.clock.now_ms, owner=None
    )
    driver.settle()
    assert (moved.outcome, waiting(driver)) == ("rescheduled", {"pay!": 8 * HOUR_MS})
    if restart:
        driver.close()
        driver = transacting(files, clock=driver.clock)
    assert end(driver, first, commit=True)
    assert waiting(driver) == {"1": 5 * HOUR_MS}, "the message of the first half is not lost"
    driver.close()
    assert not check_store(files, "/store").damages


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"ESC_TIMER_ACT": "forget", "ESC_SCHEDULE_KEY": KEY}, "cancel or move"),
        ({"ESC_TIMER_ACT": "cancel"}, "schedule key"),
        ({"ESC_TIMER_ACT": "cancel", "ESC_SCHEDULE_KEY": "x" * 201}, "1 to 200"),
        ({"ESC_TIMER_ACT": "cancel", "ESC_SCHEDULE_KEY": KEY, "TIMER_DELAY_MS": "5"}, "no due time"),
        ({"ESC_TIMER_ACT": "move", "ESC_SCHEDULE_KEY": KEY}, "says when"),
        ({"ESC_TIMER_ACT": "cancel", "ESC_SCHEDULE_KEY": KEY, "DELAY": "3"}, "delay level"),
        ({"ESC_TIMER_ACT": "cancel", "ESC_SCHEDULE_KEY": KEY, "ESC_ON_CONFLICT": "replace"}, "ESC_ON_CONFLICT"),
    ],
)
def test_a_half_that_cannot_be_carried_out_is_refused(asked: dict[str, str], why: str) -> None:
    driver = transacting()
    with pytest.raises(TimerIllegal, match=why):
        begin(driver, b"act", **asked)


def test_a_move_beyond_what_the_broker_takes_is_refused_with_the_half() -> None:
    with pytest.raises(TimerTooFar):
        move_half(transacting(), "A1", TOO_FAR_MS)
