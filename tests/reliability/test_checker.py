"""The checker finds every kind of broken promise in a history made by hand, and nothing in one that is as it may be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.reliability.checker import Verdict, check, missing
from tests.reliability.lives import Promises
from tests.reliability.stories import GROUP, TOPIC, Story

APACHE = Promises(tick_ms=1_000, cancels_are_definite=False, releases_once=False)
DEAD = f"%DLQ%{GROUP}"
PLACE = {"group": GROUP, "topic": TOPIC, "queue": 0, "offset": 0}
KEPT = {"topic": TOPIC, "queue": 0, "intact": True, "store_ms": 0}


def kinds(story: Story, promises: Promises | None = None) -> list[str]:
    return sorted(judged(story, promises).kinds())


def judged(story: Story, promises: Promises | None = None) -> Verdict:
    return check(story.events, promises or Promises())


def shard(numbers: list[int]) -> Story:
    """Three messages of one key, handed out so; 0 is a kill."""
    story = Story()
    for number in (1, 2, 3):
        story.send(f"m{number}", kind="ordered", shard="s", number=number)
    for number in numbers:
        if number:
            story.hand(f"m{number}", number)
        else:
            story.do("fault", "kill")
    return story


def in_order(story: Story, places: dict[int, tuple[int, int]]) -> Story:
    for number, (queue, offset) in places.items():
        story.stored(f"m{number}", offset, queue=queue)
    return story


ORDERED = {1: (0, 1), 2: (0, 2), 3: (0, 3)}

BAD: dict[str, tuple[str, Callable[[], Story]]] = {
    "accepted and gone": ("lost", lambda: Story().send("a")),
    "accepted, read by one group only": (
        "not handed out",
        lambda: Story().do("reader", "others", topic=TOPIC).send("a").shown("a"),
    ),
    "in the topic, never handed out": ("not handed out", lambda: Story().send("a").stored("a")),
    "sent by nobody": ("unsent", lambda: Story().shown("a")),
    "another body": ("altered", lambda: Story().send("a").shown("a", intact=False)),
    "another body as dead letter": (
        "altered",
        lambda: Story(letters=True).send("a", kind="poison").shown("a").stored("a", topic=DEAD, intact=False),
    ),
    "refused and there": ("refused and shown", lambda: Story().send("a", "refused").shown("a")),
    "released before its delay": (
        "early",
        lambda: Story().send("a", kind="timer", at=0, delay_ms=60_000).shown("a", at=30_000),
    ),
    "released before its moment": (
        "early",
        lambda: Story().send("a", kind="timer", at=0, due_ms=1_060_000).shown("a", at=30_000),
    ),
    "a level that is early without a step of the clock": (
        "early",
        lambda: Story().send("a", kind="level", at=0, delay_ms=60_000).shown("a", at=30_000),
    ),
    "moved away and there at the old moment": (
        "early",
        lambda: (
            Story()
            .send("a", kind="timer", at=0, delay_ms=5_000)
            .do("move", "a", at=1_000, delay_ms=90_000)
            .shown("a", at=6_000)
        ),
    ),
    "due in hours and there": ("early", lambda: Story().send("a", kind="far", at=0, delay_ms=9_000_000).shown("a")),
    "cancelled and there": (
        "cancelled and shown",
        lambda: Story().send("a", kind="timer", at=0, delay_ms=500).do("cancel", "a").shown("a", at=9_000),
    ),
    "a cancel that was said to be too late": (
        "lost",
        lambda: Story().send("a", kind="timer", delay_ms=500).do("cancel", "a", "refused"),
    ),
    "rolled back and there": (
        "rolled back and shown",
        lambda: Story().send("a", kind="half").do("decide", "a", said="rollback").shown("a"),
    ),
    "rolled back by a check and there": (
        "rolled back and shown",
        lambda: Story().send("a", kind="half").do("check", "a", said="rollback").shown("a"),
    ),
    "there although nobody decided": (
        "undecided and shown",
        lambda: Story().send("a", kind="half").do("check", "a", said="unknown").shown("a"),
    ),
    "there before it was committed": (
        "shown before commit",
        lambda: Story().send("a", kind="half").shown("a").do("decide", "a", said="commit"),
    ),
    "committed and gone": (
        "lost",
        lambda: Story().send("a", kind="half").do("decide", "a", said="commit"),
    ),
    "committed by a check and gone": (
        "lost",
        lambda: Story().send("a", kind="half").do("check", "a", said="commit"),
    ),
    "twice in its topic": ("copied", lambda: Story().send("a").shown("a").stored("a")),
    "released twice": (
        "copied",
        lambda: Story().send("a", kind="timer", delay_ms=1).do("fault", "kill", lasts=5).shown("a").stored("a"),
    ),
    "more often than it was sent": (
        "copied",
        lambda: Story().send("a", tries=2).shown("a").stored("a").stored("a"),
    ),
    "handed out again after its ack": (
        "again after its ack",
        lambda: Story().send("a").shown("a", 0).do("ack", "a", **PLACE).hand("a", 0),
    ),
    "handed out again for no reason": ("repeated", lambda: Story().send("a").shown("a", 0).hand("a", 0)),
    "two messages in one place": (
        "two in one place",
        lambda: Story().send("a").send("b").shown("a", 0).shown("b", 0),
    ),
    "a place that changed between a reader and the end": (
        "two in one place",
        lambda: Story().send("a").send("b").hand("a", 0).stored("a", 1).hand("b", 1).stored("b", 2),
    ),
    "one key in two queues": (
        "out of order",
        lambda: in_order(shard([1, 2, 3]), {1: (0, 1), 2: (1, 1), 3: (0, 3)}),
    ),
    "stored in another order": (
        "out of order",
        lambda: in_order(shard([1, 2, 3]), {1: (0, 2), 2: (0, 1), 3: (0, 3)}),
    ),
    "handed out in another order": ("out of order", lambda: in_order(shard([1, 3, 2]), ORDERED)),
    "a repeat that skips": ("out of order", lambda: in_order(shard([1, 1, 3, 2]), ORDERED)),
    "failed at every try and no dead letter": (
        "no dead letter",
        lambda: Story(letters=True).send("a", kind="poison").shown("a"),
    ),
    "two dead letters": (
        "dead twice",
        lambda: Story(letters=True).send("a", kind="poison").shown("a").stored("a", topic=DEAD).stored("a", topic=DEAD),
    ),
    "a dead letter of what never failed": (
        "dead without reason",
        lambda: Story().send("a").shown("a").stored("a", topic=DEAD),
    ),
    "far, accepted, and not waiting": ("lost", lambda: Story().send("a", kind="far", delay_ms=9_000_000)),
    "far, cancelled, and waiting": (
        "cancelled and waiting",
        lambda: Story().send("a", kind="far", delay_ms=9_000_000).do("cancel", "a").do("pending", "a"),
    ),
    "fewer are told to wait than do": (
        "miscounted",
        lambda: Story().send("a", kind="far", delay_ms=9_000_000).do("count", TOPIC, waiting=0),
    ),
    "more are told to wait than do": (
        "miscounted",
        lambda: Story().send("a", kind="far", delay_ms=9_000_000).do("count", TOPIC, waiting=2),
    ),
    "a broker that did not come back": ("unsound", lambda: Story().do("health", "start", said="it did not start")),
    "a broker that went on after a restart only": ("stood still", lambda: Story().do("stood", "3 messages", said="a")),
    "a sum that does not come out": ("ledger", lambda: Story().send("a").send("b").shown("a")),
}

GOOD: dict[str, tuple[Callable[[], Story], Promises]] = {
    "accepted and there": (lambda: Story().send("a").shown("a"), Promises()),
    "unknown and gone": (lambda: Story().send("a", "unknown"), Promises()),
    "unknown and there": (lambda: Story().send("a", "unknown").shown("a"), Promises()),
    "refused and gone": (lambda: Story().send("a", "refused"), Promises()),
    "released at its moment": (
        lambda: Story().send("a", kind="timer", at=0, delay_ms=60_000).shown("a", at=60_000), Promises(),
    ),
    "released when the clock was set forward": (
        lambda: Story().send("a", kind="timer", at=0, delay_ms=60_000).do("clock", "", at=1_000, step_ms=59_000)
        .shown("a", at=2_000, store_ms=1_061_000),
        Promises(),
    ),
    "a level that is over as the clock was set back": (
        lambda: Story().send("a", kind="level", at=0, delay_ms=60_000).do("clock", "", at=1_000, step_ms=-900_000)
        .shown("a", at=2_000, store_ms=102_000),
        Promises(),
    ),
    "moved and there at the new moment": (
        lambda: Story().send("a", kind="timer", at=0, delay_ms=5_000).do("move", "a", at=1_000, delay_ms=9_000)
        .shown("a", at=10_000),
        Promises(),
    ),
    "perhaps moved, and there at the old moment": (
        lambda: Story().send("a", kind="timer", at=0, delay_ms=5_000)
        .do("move", "a", "unknown", at=1_000, delay_ms=90_000).shown("a", at=6_000),
        Promises(),
    ),
    "cancelled": (lambda: Story().send("a", kind="timer", delay_ms=500).do("cancel", "a"), Promises()),
    "perhaps cancelled": (
        lambda: Story().send("a", kind="timer", delay_ms=500).do("cancel", "a", "unknown").shown("a"), Promises(),
    ),
    "too late to be cancelled, and there": (
        lambda: Story().send("a", kind="timer", delay_ms=500).do("cancel", "a", "refused").shown("a"), Promises(),
    ),
    "a wish to cancel, noted at the moment itself": (
        lambda: Story().send("a", kind="timer", at=0, delay_ms=1_500).do("cancel", "a").shown("a", at=2_000), APACHE,
    ),
    "a timer within the tick": (
        lambda: Story().send("a", kind="timer", at=0, delay_ms=1_500).shown("a", at=600, store_ms=1_000_600), APACHE,
    ),
    "rolled back": (lambda: Story().send("a", kind="half").do("decide", "a", said="rollback"), Promises()),
    "committed": (
        lambda: Story().send("a", kind="half").do("decide", "a", "unknown", said="commit").shown("a"), Promises(),
    ),
    "committed after questions": (
        lambda: Story().send("a", kind="half").do("check", "a", said="unknown").do("check", "a", said="commit")
        .shown("a"),
        Promises(),
    ),
    "as often in its topic as it was sent": (
        lambda: Story().send("a", tries=3).shown("a").stored("a").stored("a"), Promises(),
    ),
    "released twice by a kill, where that may be": (
        lambda: Story().send("a", kind="timer", delay_ms=1).do("fault", "kill", lasts=5).shown("a").stored("a"),
        APACHE,
    ),
    "again after its ack, as a kill came between": (
        lambda: Story().send("a").shown("a", 0).do("ack", "a", **PLACE).do("fault", "kill").hand("a", 0), Promises(),
    ),
    "again, as its ack was not answered": (
        lambda: Story().send("a").shown("a", 0).do("fault", "mute").do("ack", "a", "unknown", **PLACE).hand("a", 0),
        Promises(),
    ),
    "in order": (lambda: in_order(shard([1, 2, 3]), ORDERED), Promises()),
    "in order but for repeats": (lambda: in_order(shard([1, 2, 0, 1, 2, 3]), ORDERED), Promises()),
    "failed at every try, and a dead letter": (
        lambda: Story(letters=True).send("a", kind="poison").shown("a").stored("a", topic=DEAD), Promises(),
    ),
    "two dead letters, as an answer was cut off": (
        lambda: Story(letters=True).send("a", kind="poison").shown("a").do("fault", "cut", lasts=9)
        .stored("a", topic=DEAD).stored("a", topic=DEAD),
        Promises(),
    ),
    "far and waiting": (
        lambda: Story().send("a", kind="far", delay_ms=9_000_000).do("pending", "a"), Promises(),
    ),
    "far and told to wait": (
        lambda: Story().send("a", kind="far", delay_ms=9_000_000).do("count", TOPIC, waiting=1), Promises(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_it_finds(name: str) -> None:
    kind, story = BAD[name]
    assert kind in kinds(story())


@pytest.mark.parametrize("name", GOOD)
def test_it_finds_nothing_in(name: str) -> None:
    story, promises = GOOD[name]
    assert judged(story(), promises).violations == []


def test_what_may_be_under_a_fault_is_counted() -> None:
    story = Story().send("a", kind="timer", delay_ms=1).do("fault", "kill", lasts=5).shown("a").stored("a")
    assert judged(story, APACHE).counts["copies"] == 1


def test_each_message_is_in_the_sum_once() -> None:
    story = Story(letters=True).send("plain").shown("plain").send("dead", kind="poison").shown("dead")
    story.stored("dead", topic=DEAD).send("cancelled", kind="timer", delay_ms=1).do("cancel", "cancelled")
    story.send("half", kind="half").do("decide", "half", said="rollback")
    story.send("far", kind="far", delay_ms=9_000_000).do("pending", "far")
    counts = judged(story).counts
    fates = {name: counts[name] for name in ("delivered", "dead", "cancelled", "rolled back", "pending")}
    assert (set(fates.values()), sum(fates.values())) == ({1}, counts["accepted"])


def test_what_is_missing_is_named_until_it_is_there() -> None:
    story = Story().send("a").send("b", kind="half")
    assert missing(story.events, Promises()) == [f"a for {GROUP}", "b undecided"]
    story.shown("a").do("check", "b", said="rollback")
    assert missing(story.events, Promises()) == []


@pytest.mark.parametrize(("name", "outcome"), [("kept", "ok"), ("open", "unknown")])
def test_nothing_of_it_depends_on_the_order_of_clients(name: str, outcome: str) -> None:
    story = Story().send(name, outcome).shown(name)  # type: ignore[arg-type]  # one of the outcomes
    assert kinds(story) == sorted(check(story.events[::-1], Promises()).kinds()) == []
