"""The rules of masks, applied to answers: a body, a key or a property is replaced by the same text as on the pages.

Receiving is not masked: what a consumer group gets is its own. A token with `--unmask` sees what it may read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from broker.rocketmq.properties import KEYS, TAGS, UNIQUE_KEY
from console.rest.identifiers import parse, written
from console.security.masking import Masks
from console.security.tokens import Grant


class Labelled(Protocol):
    """A row of an answer that has the tag and the keys of a message."""

    tag: str | None
    keys: list[str]


Row = TypeVar("Row", bound=Labelled)


@dataclass(frozen=True, slots=True)
class Masked:
    """The masks of one topic: names of properties (and `BODY`), and the text in place of each."""

    masks: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.masks)

    def text(self, name: str, text: str | None) -> str | None:
        """Return the text of a property or of the body, or the text in its place; what is empty stays so."""
        return self.masks.get(name, text) if text else text

    def identifier(self, identifier: str) -> str:
        """Return our id, without the message id in it where that is masked: its position finds the message, too."""
        if UNIQUE_KEY not in self.masks:
            return identifier
        found = parse(identifier)
        return written(found.broker, found.topic, found.position, "")

    def label(self, row: Row) -> Row:
        """Mask tag and keys of a row in place, and return it."""
        row.tag = self.text(TAGS, row.tag)
        if row.keys and KEYS in self.masks:
            row.keys = [self.masks[KEYS]]
        return row


_NOTHING = Masked({})


@dataclass(frozen=True, slots=True)
class Hiding:
    """The rules of masks, applied for one token."""

    masks: Masks
    grant: Grant

    def of(self, topic: str) -> Masked:
        """Return the masks of a topic; none for a token that sees what is masked."""
        return _NOTHING if not self.masks.rules or self.grant.unmasks(topic) else Masked(self.masks.of(topic))

    def row(self, row: Any, topic: str) -> Any:
        """Return a row of the console's reads with its masks."""
        return row if self.grant.unmasks(topic) else self.masks.row(row, topic)
