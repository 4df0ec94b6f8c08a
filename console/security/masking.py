"""Masking by the rules of `/admin/`: the one place that decides, for every page, live frame and file.

Nothing masked is left out silently: in its place stand the word and the rule's reason. Topics that hold messages of
several topics (tries, dead letters, what waits) are masked as if every rule were theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from django.utils.translation import gettext as _

from broker.rocketmq.properties import DEAD_REASON, KEYS, SCHEDULE_KEY, TAGS, UNIQUE_KEY
from broker.rocketmq.topics import GROUP_PREFIXES, OLD_SYSTEM_PREFIX, PARKED_HALF_TOPIC, SYSTEM_PREFIX
from console.security.models import MaskRule

UNMASK = "console.unmask"
BODY = "body"
#: topics of the brokers own that hold messages of others
_MIXED = (*GROUP_PREFIXES, "SCHEDULE_TOPIC", PARKED_HALF_TOPIC, OLD_SYSTEM_PREFIX, SYSTEM_PREFIX)
#: fields of rows, and the property that each shows
_FIELDS: Mapping[str, str] = {
    "keys": KEYS,
    "tag": TAGS,
    "unique_key": UNIQUE_KEY,
    "transaction_id": UNIQUE_KEY,
    "schedule_key": SCHEDULE_KEY,
    "preview": BODY,
    "text": BODY,
    "last_error": DEAD_REASON,
}
#: what the name of an item of an operation may be made of
_NAMING = frozenset({KEYS, UNIQUE_KEY, SCHEDULE_KEY, BODY})

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Masks:
    """The rules: prefix, what is masked, and why."""

    rules: tuple[tuple[str, frozenset[str], str], ...] = ()

    def of(self, topic: str | None) -> Mapping[str, str]:
        """Return what is masked of the topic, and what is shown in its place."""
        is_mixed = not topic or topic.startswith(_MIXED)
        found: dict[str, str] = {}
        for prefix, names, why in self.rules:
            if is_mixed or str(topic).startswith(prefix):
                for name in names:
                    found.setdefault(name, _("•••• masked: %(why)s") % {"why": why})
        return found

    def row(self, row: Row, topic: str | None) -> Row:
        """Return a row of a list with its masked texts replaced."""
        masked = self.of(topic) if self.rules else {}
        changes: dict[str, Any] = {}
        for field, name in _FIELDS.items():
            value = getattr(row, field, None)
            if name in masked and value:
                changes[field] = (masked[name],) if isinstance(value, tuple) else masked[name]
        return replace(row, **changes) if changes else row  # type: ignore[type-var]  # rows are dataclasses

    def rows(self, found: Iterable[Row], topic: str | None = None) -> tuple[Row, ...]:
        """Return rows with masked texts replaced, each by its own topic if none is given."""
        if not self.rules:
            return tuple(found)
        return tuple(self.row(row, getattr(row, "topic", None) if topic is None else topic) for row in found)

    def name(self, topic: str | None) -> str | None:
        """Return what stands for a name of this topic; None for the name itself."""
        masked = self.of(topic) if self.rules else {}
        return next((masked[each] for each in sorted(_NAMING & masked.keys())), None)


_is_lifted: ContextVar[bool] = ContextVar("is_lifted", default=False)


def masks() -> Masks:
    """Return the masks of whoever looks now."""
    if _is_lifted.get():
        return Masks()
    rows = MaskRule.objects.filter(is_on=True)
    return Masks(tuple((row.prefix, frozenset(row.names), row.why) for row in rows))


@contextmanager
def lifted() -> Iterator[None]:
    """Mask nothing within, for somebody who may see it and has said why."""
    token = _is_lifted.set(True)
    try:
        yield
    finally:
        _is_lifted.reset(token)
