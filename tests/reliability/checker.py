"""The checker: from a history it decides whether the promises were kept. Pure: no file, no clock, no broker.

It knows of each message what its sender was told, and what readers saw. A rule looks at one life, or at a whole
history, and says what is wrong with it; what may happen under a fault and is worth a number is counted instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.reliability.history import Event
from tests.reliability.lives import Histories, Life, Promises

#: How much a consumer's clock and the moment of an answer may differ by.
SLACK_MS = 5
#: A cancel that comes nearer to the moment than this may be too late where its answer promises nothing.
RACE_MS = 2_000
#: What a client does not hear of, and what a broker may forget that it did.
CUTS = ("kill", "restart", "starved", "cut", "mute", "stop", "full", "died")
#: A member took queues from another, who was still at work on what it had of them.
MOVED = "members"
#: After a fault members find each other again, and queues move once more, within so long; one that is alone has them.
REJOINED_MS, ALONE_MS = 4_000, 1_000


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was not kept: its kind, whose it is, and what was seen."""

    kind: str
    id: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id}: {self.text}"


@dataclass(slots=True)
class Verdict:
    """What the checker says of a history."""

    counts: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)

    def kinds(self) -> Counter[str]:
        """The violations by kind."""
        return Counter(each.kind for each in self.violations)


Rule = Callable[[Life, Histories, Promises, Counter[str]], Iterator[Violation]]


def check(events: Sequence[Event], promises: Promises) -> Verdict:
    """Judge a history that is over."""
    run = Histories.of(events)
    verdict = Verdict()
    for life in run.lives.values():
        for rule in RULES:
            verdict.violations += rule(life, run, promises, verdict.counts)
    for whole in (places_are_kept, shards_are_in_order, waiting_is_told, the_broker_is_sound, the_sum_is_right):
        verdict.violations += whole(run, promises, verdict.counts)
    count_outcomes(run, verdict.counts)
    return verdict


def missing(events: Sequence[Event], promises: Promises) -> list[str]:
    """What readers must still get before a run may end: messages, by id, with the group that has not had them."""
    run = Histories.of(events)
    found = []
    for life in run.lives.values():
        if life.must_be_shown:
            had = {event.about["group"] for event in life.hands}
            found += [f"{life.id} for {group}" for group in run.readers_of(life) if group not in had]
        if life.is_accepted and life.kind == "half" and not life.said_so("commit") and not life.said_so("rollback"):
            found.append(f"{life.id} undecided")
    return found


# Rules for one life.


def is_of_somebody(life: Life, run: Histories, promises: Promises, counts: Counter[str]) -> Iterator[Violation]:
    """Nothing is there that nobody sent, and everything is as it was sent."""
    if life.send is None:
        yield Violation("unsent", life.id, "was seen, and nobody sent it")
    if any(not event.about["intact"] for event in (*life.stored, *life.hands, *life.letters)):
        yield Violation("altered", life.id, "came with another body than it was sent with")


def is_not_lost(life: Life, run: Histories, promises: Promises, counts: Counter[str]) -> Iterator[Violation]:
    """What was accepted is in its topic, and every group that reads the topic has had it."""
    if not life.must_be_shown:
        return
    if not life.stored:
        said = "was committed" if life.kind == "half" else "was accepted"
        yield Violation("lost", life.id, f"{said} and is not in its topic")
        return
    had = {event.about["group"] for event in life.hands}
    for group in run.readers_of(life):
        if group not in had:
            yield Violation("not handed out", life.id, f"is in its topic, and {group} never had it")


def refusals_hold(life: Life, run: Histories, promises: Promises, counts: Counter[str]) -> Iterator[Violation]:
    """What was refused appears nowhere."""
    if life.send is not None and life.send.outcome == "refused" and life.is_shown:
        yield Violation("refused and shown", life.id, str(life.send.about.get("error", "")))


def moment_of(life: Life, run: Histories) -> int | None:
    """The earliest moment, by the broker's clock, at which a message may be shown; None: at any."""
    if life.send is None or not {"due_ms", "delay_ms"} & life.send.about.keys():
        return None
    told = [life.send] if not any(each.outcome == "ok" for each in life.moves) else []
    moments = [*told, *(each for each in life.moves if each.outcome != "refused")]
    return min(_moment(each, run) for each in moments)


def _moment(event: Event, run: Histories) -> int:
    if "due_ms" in event.about:
        return int(event.about["due_ms"])
    return event.call_ms + min(run.clock.offsets_ms(event.call_ms, event.answer_ms)) + int(event.about["delay_ms"])


def nothing_is_early(life: Life, run: Histories, promises: Promises, counts: Counter[str]) -> Iterator[Violation]:
    """By the broker's own clock nothing is released, or in anybody's hands, before its moment."""
    due_ms = moment_of(life, run)
    if due_ms is None or life.send is None or not life.is_shown:
        return
    # a shard of a second less: brokers with a tick round down to it
    allowed_ms = promises.tick_ms if promises.tick_ms > 1 else SLACK_MS
    early_ms = max((due_ms - int(event.about["store_ms"]) for event in life.stored), default=0)
    for event in life.hands:
        clock_ms = event.answer_ms + max(run.clock.offsets_ms(life.send.call_ms, event.answer_ms))
        early_ms = max(early_ms, due_ms - clock_ms)
    if early_ms <= allowed_ms:
        return
    shown_ms = life.first_shown_ms() or max(event.answer_ms for event in life.stored)
    if life.kind == "level" and run.clock.went_back(life.send.call_ms, shown_ms):
        # RocketMQ's rule: a wait that is longer than its level, as the clock was set back, is over at once
        counts["at once after the clock was set back"] += 1
        return
    yield Violation("early", life.id, f"was there {early_ms} ms before its moment")


def cancels_hold(life: Life, run: Histories, promises: Promises, counts: Counter[str]) -> Iterator[Violation]:
    """What was cancelled is not delivered, and what was too late to be cancelled is (that is in `is_not_lost`)."""
    done = life.cancelled("ok")
    if not done or not life.is_shown:
        return
    if promises.cancels_are_definite:
        yield Violation("cancelled and shown", life.id, "the cancel was acknowledged")
        return
    due_ms = moment_of(life, run)
    first = min(done, key=lambda event: event.answer_ms)
    clock_ms = first.answer_ms + max(run.clock.offsets_ms(first.call_ms, first.answer_ms))
    if due_ms is not None and clock_ms < due_ms - RACE_MS:
        yield Violation("cancelled and shown", life.id, f"acknowledged {due_ms - clock_ms} ms before its moment")
    else:
        counts["cancelled too late to hold"] += 1


def decisions_hold(life: Life, run: Histories, promises: Promises, counts: Counter[str]) -> Iterator[Violation]:
    """A half is never shown before its producer has said commit, and never if it said rollback."""
    if life.kind != "half" or not life.is_shown:
        return
    commits = life.said_so("commit")
    if life.said_so("rollback") and not commits:
        yield Violation("rolled back and shown", life.id, "its producer said rollback only")
    elif not commits:
        yield Violation("undecided and shown", life.id, "its producer had not said commit")
    elif (seen_ms := life.first_shown_ms()) is not None and seen_ms < min(each.call_ms for each in commits):
        yield Violation("shown before commit", life.id, "its producer said commit later")


def copies_are_few(life: Life, run: Histories, promises: Promises, counts: Counter[str]) -> Iterator[Violation]:
    """A topic holds a message as often as it was sent; more only where a broker promises less, and only by a fault."""
    if life.send is None or not life.stored:
        return
    tries = int(life.send.about.get("tries", 1))
    more = len(life.stored) - 1
    if more <= 0:
        return
    counts["copies"] += more
    if more < tries:
        return
    is_released = life.kind in ("level", "timer", "half")
    if not is_released or promises.releases_once:
        yield Violation("copied", life.id, f"is in its topic {more + 1} times, sent {tries} times at most")
    elif not run.faults.any(life.send.call_ms, max(event.answer_ms for event in life.stored)):
        yield Violation("copied", life.id, f"is in its topic {more + 1} times without any fault")


def acks_hold(life: Life, run: Histories, promises: Promises, counts: Counter[str]) -> Iterator[Violation]:
    """What a group has acknowledged is not handed to it again, unless a fault came between."""
    for ack in life.acks:
        if ack.outcome != "ok":
            continue
        place = {name: ack.about[name] for name in ("group", "topic", "queue", "offset")}
        again = [each for each in life.hands if each.call_ms > ack.answer_ms and place.items() <= each.about.items()]
        if not again:
            continue
        counts["again after its ack"] += len(again)
        if not run.faults.any(ack.call_ms - 1_000, again[0].answer_ms, *CUTS, "slow", "clock"):
            yield Violation("again after its ack", life.id, f"{place['group']} had acknowledged it, and no fault came")


def repeats_have_a_reason(life: Life, run: Histories, promises: Promises, counts: Counter[str]) -> Iterator[Violation]:
    """A group is given one place again only where a fault kept it, or the broker, from knowing that it was done."""
    if life.kind == "poison":
        return
    before: dict[tuple[object, ...], Event] = {}
    settled_ms = REJOINED_MS if run.faults.had(MOVED) else ALONE_MS
    for hand in life.hands:
        place = tuple(hand.about[name] for name in ("group", "topic", "queue", "offset"))
        first = before.setdefault(place, hand)
        if first is hand:
            continue
        before[place] = hand
        if not run.faults.any(first.call_ms - settled_ms, hand.answer_ms):
            yield Violation("repeated", life.id, f"{hand.about['group']} had it twice, and no fault came between")


def letters_are_right(life: Life, run: Histories, promises: Promises, counts: Counter[str]) -> Iterator[Violation]:
    """What failed at every try is one dead letter of its group, and nothing else is one."""
    due = [group for group in run.readers_of(life) if group in run.attempts]
    if life.letters and (life.kind != "poison" or not due):
        yield Violation("dead without reason", life.id, "its group never failed it")
        return
    for group in due if life.kind == "poison" else ():
        mine = [each for each in life.letters if str(each.about["topic"]).endswith(f"%{group}")]
        tries = [each for each in life.hands if each.about["group"] == group]
        if life.must_be_shown and not mine:
            yield Violation("no dead letter", life.id, f"failed {len(tries)} times in {group}")
        if len(mine) <= 1:
            continue
        counts["dead letters more than one"] += len(mine) - 1
        first_ms = min((each.call_ms for each in tries), default=mine[-1].answer_ms + 1)
        if not run.faults.any(first_ms, mine[-1].answer_ms, *CUTS, "slow", MOVED):
            yield Violation("dead twice", life.id, f"{len(mine)} dead letters of {group}, and no fault came")


RULES: tuple[Rule, ...] = (
    is_of_somebody, is_not_lost, refusals_hold, nothing_is_early, cancels_hold, decisions_hold, copies_are_few,
    acks_hold, repeats_have_a_reason, letters_are_right,
)  # fmt: skip


# Rules for a whole history.


def places_are_kept(run: Histories, promises: Promises, counts: Counter[str]) -> Iterator[Violation]:
    """A place in a queue holds the same message for everybody, for ever."""
    held: dict[tuple[str, int, int], str] = {}
    for life in run.lives.values():
        for event in (*life.stored, *life.letters, *(each for each in life.hands if not each.about["attempt"])):
            about = event.about
            place = (str(about["topic"]), int(about["queue"]), int(about["offset"]))
            if held.setdefault(place, life.id) != life.id:
                yield Violation("two in one place", life.id, f"{place} also held {held[place]}")


def shards_are_in_order(run: Histories, promises: Promises, counts: Counter[str]) -> Iterator[Violation]:
    """Messages of one sharding key that were accepted one after the other stand and arrive in that order."""
    shards: dict[str, list[Life]] = {}
    for life in run.lives.values():
        if life.kind == "ordered" and life.is_accepted and life.send is not None:
            shards.setdefault(str(life.send.about["shard"]), []).append(life)
    for shard, lives in shards.items():
        lives.sort(key=lambda life: int(life.send.about["number"]) if life.send is not None else 0)
        places = [(each.about["queue"], each.about["offset"]) for life in lives for each in life.stored[:1]]
        if len({queue for queue, _ in places}) > 1:
            yield Violation("out of order", shard, "its messages are in several queues")
        elif any(first >= second for first, second in pairwise(places)):
            yield Violation("out of order", shard, "stands in another order than it was accepted in")
        for group in {str(each.about["group"]) for life in lives for each in life.hands}:
            yield from _handed_in_order(shard, group, lives, run, counts)


def _handed_in_order(
    shard: str, group: str, lives: Sequence[Life], run: Histories, counts: Counter[str]
) -> Iterator[Violation]:
    number = {life.id: nth for nth, life in enumerate(lives)}
    furthest = -1
    for event in run.events:
        if event.op != "hand" or event.id not in number or event.about["group"] != group:
            continue
        this = number[event.id]
        if this > furthest + 1 and _any_of(lives[furthest + 1 : this], group):
            yield Violation("out of order", event.id, f"{group} had it before earlier ones of {shard}")
            return
        counts["repeats in order"] += this <= furthest
        furthest = max(furthest, this)


def _any_of(lives: Sequence[Life], group: str) -> bool:
    """Whether one of these was handed to the group at all: then it came later. What never came is lost, not late."""
    return any(each.about["group"] == group for life in lives for each in life.hands)


def waiting_is_told(run: Histories, promises: Promises, counts: Counter[str]) -> Iterator[Violation]:
    """What is due far away still waits at the end, and what was cancelled does not."""
    far = [life for life in run.lives.values() if life.kind == "far"]
    told = {event.id: int(event.about["waiting"]) for event in run.events if event.op == "count"}
    named = [life for life in far if life.send is not None and life.send.about["topic"] not in told]
    for life in far:
        if life.is_shown:
            yield Violation("early", life.id, "is due in hours and was shown")
    for life in named:
        is_free = not life.cancelled("ok") and not life.cancelled("unknown")
        if life.is_accepted and is_free and not life.is_pending:
            yield Violation("lost", life.id, "was accepted, is not due, and does not wait")
        if life.is_pending and life.cancelled("ok"):
            yield Violation("cancelled and waiting", life.id, "the cancel was acknowledged")
    for topic, waiting in told.items():
        mine = [life for life in far if life.send is not None and life.send.about["topic"] == topic]
        least = sum(life.is_accepted and not life.cancels for life in mine)
        most = sum(life.send is not None and life.send.outcome != "refused" for life in mine)
        counts["told to wait"] += waiting
        if not least <= waiting <= most:
            yield Violation("miscounted", topic, f"{waiting} are told to wait, {least} to {most} do")


def the_broker_is_sound(run: Histories, promises: Promises, counts: Counter[str]) -> Iterator[Violation]:
    """The broker came back by itself, stopped when it was asked to, and its store holds together."""
    for event in run.events:
        if event.op == "health":
            yield Violation("unsound", event.id, str(event.about["said"]))
        if event.op == "stood":
            yield Violation("stood still", event.id, f"until the broker was restarted: {event.about['said']}")


def fate_of(life: Life, run: Histories) -> str:
    """What became of a message that was accepted; empty if that is not known."""
    if life.letters:
        return "dead"
    groups = run.readers_of(life)
    if life.is_shown:
        had = {event.about["group"] for event in life.hands}
        return "delivered" if set(groups) <= had else ""
    if life.cancelled("ok") or life.cancelled("unknown"):
        return "cancelled"
    if life.kind == "half" and life.said_so("rollback"):
        return "rolled back"
    is_far = life.kind == "far" and life.send is not None
    if life.is_pending or (is_far and any(event.op == "count" for event in run.events)):
        return "pending"
    return ""


def the_sum_is_right(run: Histories, promises: Promises, counts: Counter[str]) -> Iterator[Violation]:
    """Accepted = delivered + dead + cancelled + rolled back + pending."""
    fates = Counter(fate_of(life, run) for life in run.lives.values() if life.is_accepted)
    for fate in ("delivered", "dead", "cancelled", "rolled back", "pending"):
        counts[fate] += fates[fate]
    if fates[""]:
        yield Violation("ledger", "all", f"of {fates.total()} accepted {fates['']} are nowhere")


def count_outcomes(run: Histories, counts: Counter[str]) -> None:
    """Add how sends ended, and how often messages were handed out again."""
    for life in run.lives.values():
        if life.send is not None:
            counts["sent"] += 1
            counts[{"ok": "accepted"}.get(life.send.outcome, life.send.outcome)] += 1
            counts["unknown and shown"] += life.send.outcome == "unknown" and life.is_shown
        groups = Counter(event.about["group"] for event in life.hands)
        if life.kind != "poison":
            counts["handed out again"] += sum(groups.values()) - len(groups)
        counts["cancels answered"] += len(life.cancelled("ok"))
        counts["checks"] += sum(event.op == "check" for event in life.said)
