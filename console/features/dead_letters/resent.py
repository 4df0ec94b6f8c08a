"""Dead letters that were sent again: by which operation, with which result, and what became of them since."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from broker.client import Admin, ClientError
from console.features.dead_letters.shapes import MARKING, PAGE, SENT_AS_NEW, SENT_BACK, DeadLetter
from console.operations.fates import Question, Resent, fates_of
from console.operations.models import OperationItem
from console.operations.registry import KINDS
from console.site.chosen import Choice, choosing, chosen
from console.site.mirrored import mirrored

Find = Callable[[Admin], DeadLetter | None]


@dataclass(frozen=True, slots=True)
class Done:
    """What an operation did with a letter: an outcome code, and its result."""

    outcome: str
    result: Mapping[str, Any]
    #: which item of which operation that was
    item: tuple[str, int]


def marked(group: str, rows: Sequence[DeadLetter]) -> tuple[DeadLetter, ...]:
    """Return the letters, each with what was done with it here before."""
    kinds = [kind for kind in KINDS.values() if kind.page == PAGE and kind.name not in MARKING]
    sent = [code for kind in kinds for code, outcome in kind.outcomes.items() if outcome.mark == "ok"]
    items = OperationItem.objects.filter(
        operation__kind__in=[kind.name for kind in kinds], operation__parameters__group=group, outcome__in=sent,
        target__offset__in=[row.offset for row in rows],
    )  # fmt: skip
    done: dict[tuple[str, int, int], Done] = {}
    known = items.order_by("operation__created_at").values_list(
        "target", "outcome", "result", "operation__broker", "operation", "number"
    )
    for target, outcome, result, broker, operation, number in known:
        place = target.get("broker") or broker, target["queueId"], target["offset"]
        done[place] = Done(outcome, result, (str(operation), number))
    # without a broker it was done when there was one: the first
    first = _first() if any(not broker for broker, _queue, _offset in done) else ""
    found = ((row, _done_with(row, done, first)) for row in rows)
    return tuple(
        replace(row, sent_again=last.outcome, sent=last.result, sent_by=last.item) if last else row
        for row, last in found
    )


def _first() -> str:
    """Return the name of the first broker, whichever is chosen."""
    with choosing(Choice(chosen().entry)):
        return mirrored().name


def _done_with(row: DeadLetter, done: Mapping[tuple[str, int, int], Done], first: str) -> Done | None:
    place = (row.queue_id, row.offset)
    return done.get((row.broker, *place)) or (done.get(("", *place)) if row.broker in ("", first) else None)


def with_fates(group: str, rows: Sequence[DeadLetter]) -> tuple[DeadLetter, ...]:
    """Return the letters, those that were sent again with what became of them since, as far as brokers answer."""
    asked = (
        question_of(number, group, row.broker if row.of_several else "", _done(row), _itself(row))
        for number, row in enumerate(rows)
        if row.sent_again
    )
    found = fates_of([each for each in asked if each is not None])
    return tuple(replace(row, became=found.get(number)) for number, row in enumerate(rows))


def _done(row: DeadLetter) -> Done:
    return Done(row.sent_again, row.sent, row.sent_by)


def _itself(row: DeadLetter) -> Find:
    return lambda _admin: row


def question_of(number: int, group: str, broker: str, done: Done, find: Find) -> Question[int] | None:
    """Return what is asked of a letter that was sent again; `find` gives the letter. None: nothing can be asked.

    `broker`: where it lies, where there are several.
    """
    result = done.result
    topic = str(result.get("topic", ""))
    if done.outcome == SENT_BACK:

        def went_back(admin: Admin) -> Resent | None:
            row = find(admin)
            if row is None or not row.unique_key:
                return None
            since = int(result.get("letters_end", row.offset + 1))
            return Resent(group, row.topic, row.unique_key, row.position, row.attempts + 1, since)

        return Question(number, broker, group, topic, went_back, done.item)
    home, copy_id = str(result.get("broker", "")), str(result.get("message_id", ""))
    if done.outcome != SENT_AS_NEW or not copy_id or (broker and not home):
        return None

    def as_new(admin: Admin) -> Resent | None:
        key = result.get("unique_key") or _key_of(admin, copy_id)
        return Resent(group, topic, key) if key else None

    return Question(number, home if broker else "", group, topic, as_new, done.item)


def _key_of(admin: Admin, offset_message_id: str) -> str | None:
    """Return the message id of a copy whose operation did not keep it; None: the record is gone."""
    try:
        return admin.message_by_offset_id(offset_message_id).unique_key
    except ClientError:
        return None
