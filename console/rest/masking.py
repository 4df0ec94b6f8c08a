"""What the rules of masks leave of an answer: what stands in the console for a body, a key or a property, stands here.

Receiving is not masked: what a consumer group gets is its own. A token with `--unmask` sees what it may read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from broker.rocketmq.properties import KEYS, SCHEDULE_KEY, TAGS, UNIQUE_KEY
from console.security.masking import BODY, Masks
from console.security.tokens import Grant

from ..features.timers.rest_schemas import TimerRow
from ..features.transactions.rest_schemas import TransactionShown
from .identifiers import parse, written
from .schemas import FoundMessage


@dataclass(frozen=True, slots=True)
class Hiding:
    """The rules, and who asks."""

    masks: Masks
    grant: Grant

    def of(self, topic: str) -> Mapping[str, str]:
        """Names that are masked of the topic, and what stands for each."""
        return {} if not self.masks.rules or self.grant.unmasks(topic) else self.masks.of(topic)

    def row(self, row: Any, topic: str) -> Any:
        """A row of the console's reads."""
        return row if self.grant.unmasks(topic) else self.masks.row(row, topic)

    def message(self, found: FoundMessage) -> FoundMessage:
        """One message; changed in place."""
        masked = self.of(found.topic)
        if BODY in masked:
            found.body, found.body_base64 = masked[BODY], None
        found.properties = {name: masked.get(name, text) for name, text in found.properties.items()}
        found.message_id = _said(masked, UNIQUE_KEY, found.message_id)
        found.id = _named(masked, found.id)
        _tag_and_keys(masked, found)
        return found

    def timer(self, row: TimerRow) -> TimerRow:
        """One that waits; changed in place. A recall handle holds the unique id."""
        masked = self.of(row.topic)
        row.schedule_key = _said(masked, SCHEDULE_KEY, row.schedule_key)
        row.message_id = _said(masked, UNIQUE_KEY, row.message_id)
        row.id, row.recall_handle = _named(masked, row.id), None if UNIQUE_KEY in masked else row.recall_handle
        _tag_and_keys(masked, row)
        return row

    def transaction(self, row: TransactionShown) -> TransactionShown:
        """One transaction; changed in place."""
        masked = self.of(row.topic)
        row.transaction_id = _said(masked, UNIQUE_KEY, row.transaction_id)
        row.id = None if row.id is None else _named(masked, row.id)
        _tag_and_keys(masked, row)
        return row


def _said(masked: Mapping[str, str], name: str, text: str | None) -> str | None:
    return masked.get(name, text) if text else text


def _named(masked: Mapping[str, str], identifier: str) -> str:
    """Our id without the unique id in it: its position finds it, too."""
    if UNIQUE_KEY not in masked:
        return identifier
    found = parse(identifier)
    return written(found.broker, found.topic, found.position, "")


def _tag_and_keys(masked: Mapping[str, str], row: FoundMessage | TimerRow | TransactionShown) -> None:
    row.tag = _said(masked, TAGS, row.tag)
    if row.keys and KEYS in masked:
        row.keys = [masked[KEYS]]
