"""What kinds have in common that find rows, by their names or by a filter: how many, which topics, which ones later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from console.operations.errors import TooMany
from console.operations.kind import LIMIT
from console.operations.preview import Preview

#: rows and topics that a preview names
EXAMPLES = 5
TOPICS = 10
#: a preview counts for so long at most; the run counts to the end
PREVIEW_PATIENCE_S = 3.0


class Hit(Protocol):
    """A row that would be hit."""

    @property
    def topic(self) -> str:
        """Its topic, as consumers know it."""

    @property
    def store_ms(self) -> int | None:
        """When it was stored; None is not known."""


Row = TypeVar("Row", bound=Hit)


def count_of(parameters: Mapping[str, Any], rows: Sequence[Hit]) -> int:
    """How many are hit: what was found by a filter, or each that was named; raises TooMany."""
    count = len(rows) if "filter" in parameters else len(parameters["targets"])
    if count > LIMIT:
        raise TooMany(LIMIT)
    return count


def topics_of(rows: Sequence[Hit]) -> list[list[Any]]:
    """Their topics, each with its count, the most first."""
    return [[topic, number] for topic, number in Counter(row.topic for row in rows).most_common(TOPICS)]


def there_before(rows: Sequence[Row], preview: Preview) -> list[Row]:
    """Those that were there when it was previewed; raises TooMany."""
    found = [row for row in rows if row.store_ms is None or row.store_ms <= preview.at_ms]
    if len(found) > LIMIT:
        raise TooMany(LIMIT)
    return found
