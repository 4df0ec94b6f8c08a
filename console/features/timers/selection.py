"""Which timers an operation is about: named ones, or all that match a filter. Its form in Operation.parameters.

    {"targets": [{"position": 4711}, {"topic": "orders", "scheduleKey": "order-4711"}, ...]}
    {"filter": {"topic": "orders", "key": "", "from_ms": 1795247527000, "to_ms": None}, "is_all": False}

An empty filter means every timer and must be asked for by `is_all`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console.features.timers.shapes import TimerFilter
from console.operations.errors import InvalidParameter

#: named at once: the broker's own limit
MOST_TARGETS = 1_000
_TEXT_LENGTH = 1_024
#: a target is named by one of these sets of fields
_FORMS = ({"position"}, {"topic", "scheduleKey"}, {"topic", "uniqueKey"}, {"handle"}, {"messageId"})


def checked_selection(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The selection in its one form; raises InvalidParameter."""
    if "targets" in parameters:
        found = parameters["targets"]
        if not isinstance(found, list) or not found:
            raise InvalidParameter("targets", "Name at least one timer.")
        if len(found) > MOST_TARGETS:
            raise InvalidParameter("targets", f"At most {MOST_TARGETS:,} timers are named at once; use a filter.")
        unique = {repr(sorted(target.items())): target for target in map(_target, found)}
        return {"targets": list(unique.values())}
    given = parameters.get("filter")
    if not isinstance(given, Mapping):
        raise InvalidParameter("filter", "Name timers (targets), or give a filter.")
    wanted = filter_of(given)
    if wanted.is_empty and not parameters.get("is_all"):
        raise InvalidParameter("filter", "An empty filter is every timer; say so with all.")
    fields = {"topic": wanted.topic, "key": wanted.key, "from_ms": wanted.from_ms, "to_ms": wanted.to_ms}
    return {"filter": fields, "is_all": bool(parameters.get("is_all"))}


def filter_of(given: Mapping[str, Any]) -> TimerFilter:
    """The filter of the parameters; raises InvalidParameter."""
    texts = {name: given.get(name) or "" for name in ("topic", "key")}
    bounds = {name: given.get(name) for name in ("from_ms", "to_ms")}
    for name, text in texts.items():
        if not isinstance(text, str) or len(text) > _TEXT_LENGTH:
            raise InvalidParameter(name, f"{name} is a text of at most {_TEXT_LENGTH:,} characters.")
    for name, bound in bounds.items():
        if bound is not None and (not isinstance(bound, int) or isinstance(bound, bool) or not 0 <= bound < 2**63):
            raise InvalidParameter(name, f"{name} is a moment in epoch milliseconds.")
    return TimerFilter(texts["topic"], texts["key"], bounds["from_ms"], bounds["to_ms"])


def _target(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidParameter("targets", "A target is an object that names a timer.")
    names = {name for name in given if name != "dueMs"}
    if names not in _FORMS:
        raise InvalidParameter(
            "targets", "A target is named by position, topic and scheduleKey, topic and uniqueKey, handle or messageId."
        )
    for name in ("position", "dueMs"):
        number = given.get(name, 0)
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**63:
            raise InvalidParameter("targets", f"{name} is a whole number.")
    for name in names - {"position"}:
        if not isinstance(given[name], str) or not 0 < len(given[name]) <= _TEXT_LENGTH:
            raise InvalidParameter("targets", f"{name} is a text of 1 to {_TEXT_LENGTH:,} characters.")
    return dict(given)
