"""Timers that are chosen one by one, as operations name them, and whether all are of topics that are allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.client.names import check_topic
from broker.client.timers import BadHandle, read_handle
from broker.client.timing import check_schedule_key
from console.security.tokens import PUBLISH, Grant

from ...rest.choice_schemas import ChosenTimer
from ...rest.errors import InvalidIdentifier, InvalidMoment, SchemaViolated
from ...rest.grants import require
from ...rest.identifiers import parse
from ...rest.moments import moment_ms
from ..messages.rest import is_offset_id


def chosen_timers(chosen: Sequence[ChosenTimer], grant: Grant, *, may_move: bool) -> tuple[list[dict[str, Any]], bool]:
    """Targets of an operation, and whether each can only be of a topic that the token allows to publish to.

    Where that is not so, the preview says which topics they are of. Raises ScopeMissing, PolicyDenies, SchemaViolated.
    """
    targets = [_target(each, grant) for each in chosen]
    for each, target in zip(chosen, targets, strict=True):
        if each.deliver_at is None:
            continue
        if not may_move:
            raise InvalidMoment("A moment is given to timers that are moved.", "deliver_at")
        target["dueMs"] = moment_ms(each.deliver_at, "deliver_at")
    return targets, all("topic" in target or "handle" in target for target in targets)


def _target(each: ChosenTimer, grant: Grant) -> dict[str, Any]:
    names = [each.id, each.schedule_key, each.message_id, each.position]
    has_key = each.schedule_key is not None or each.message_id is not None
    if sum(name is not None for name in names) != 1 or has_key != (each.topic is not None):
        raise SchemaViolated("A timer is named by id, by topic and schedule_key or message_id, or by position.")
    if each.position is not None:
        return {"position": each.position}
    if each.id is not None:
        return _by_id(each.id, grant)
    topic = each.topic or ""
    check_topic(topic)
    require(grant, PUBLISH, topic)
    if each.schedule_key is None:
        return {"topic": topic, "uniqueKey": each.message_id}
    check_schedule_key(each.schedule_key)
    return {"topic": topic, "scheduleKey": each.schedule_key}


def _by_id(text: str, grant: Grant) -> dict[str, Any]:
    """By what a message keeps when it is moved, where it has it."""
    if text.startswith("m1"):
        wanted = parse(text)
        require(grant, PUBLISH, wanted.topic)
        if wanted.unique_key:
            return {"topic": wanted.topic, "uniqueKey": wanted.unique_key}
        return {"position": wanted.position}
    if is_offset_id(text):
        return {"messageId": text.upper()}
    try:
        handle = read_handle(text)
    except BadHandle:
        raise InvalidIdentifier(f"{text[:60]!r} is no id, offset id or recall handle.") from None
    require(grant, PUBLISH, handle.topic)
    return {"handle": text}
