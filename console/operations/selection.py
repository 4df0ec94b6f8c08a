"""The parts common to kinds that touch rows, chosen one by one (`targets`) or by a filter.

They count the rows, name their topics, find those that are left when it runs, and say how REST names the same ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from django.utils.translation import gettext

from broker.client import Admin
from console.operations.actor import UNBOUNDED, Scope, named
from console.operations.errors import InvalidParameter, NotPossible, TooMany
from console.operations.kind import LIMIT, Preview, renamed
from console.site.broker import admin
from console.site.chosen import chosen
from console.site.clock import local_time
from console.site.mirrored import cluster

#: rows and topics that a preview names
EXAMPLES = 5
TOPICS = 10
#: a preview counts for so long at most; the run counts to the end
PREVIEW_PATIENCE_S = 3.0
#: rows that are named at once: the broker's own limit
MOST_TARGETS = 1_000
#: names of a target's fields here and in REST
_TARGETS = {
    "position": "position",
    "offset": "offset",
    "queueId": "queue",
    "topic": "topic",
    "scheduleKey": "schedule_key",
    "uniqueKey": "message_id",
    "handle": "id",
    "messageId": "id",
    "dueMs": "deliver_at",
    "broker": "broker",
}


class Hit(Protocol):
    """A row that would be touched."""

    @property
    def topic(self) -> str:
        """The message's topic, as consumers know it."""

    @property
    def store_ms(self) -> int | None:
        """The moment when it was stored; None: not known."""


Row = TypeVar("Row", bound=Hit)


def admin_of_one() -> Admin:
    """Return the client of the broker whose rows are chosen: positions, and filters, are of one broker.

    Raises NotPossible where none is chosen and there are several.
    """
    if not chosen().broker and cluster().has_several:
        raise NotPossible(gettext("There are several brokers: choose one for this operation."))
    return admin()


def count_of(parameters: Mapping[str, Any], rows: Sequence[object]) -> int:
    """Return how many are touched: what a filter found, or each that was named; raises TooMany."""
    count = len(rows) if "filter" in parameters else len(parameters["targets"])
    if count > LIMIT:
        raise TooMany(LIMIT)
    return count


def topics_of(topics: Sequence[str]) -> list[list[Any]]:
    """Return each topic with its count, the most first, for a preview."""
    return [[topic, number] for topic, number in Counter(topics).most_common(TOPICS)]


def there_before(rows: Sequence[Row], preview: Preview) -> list[Row]:
    """Return those that were there when it was previewed; raises TooMany."""
    found = [row for row in rows if row.store_ms is None or row.store_ms <= preview.at_ms]
    if len(found) > LIMIT:
        raise TooMany(LIMIT)
    return found


def chosen_scope(parameters: Mapping[str, Any], preview: Mapping[str, Any] | None) -> Scope:
    """Return the topics of what is chosen. What matches a filter is decided again when it runs: only its topic bounds
    that; of named rows those do that the preview counted, if it knows the topic of each."""
    if "filter" in parameters:
        return Scope(named(parameters["filter"].get("topic")))
    if "targets" not in parameters or preview is None:
        return UNBOUNDED
    counted = preview.get("topics", ())
    if sum(count for _topic, count in counted) != len(parameters["targets"]):
        return UNBOUNDED
    return Scope(frozenset(str(topic) for topic, _count in counted))


def chosen_body(field: str, parameters: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return what REST is given: the filter with its fields as `names` say, or the rows that were chosen as `field`."""
    if "targets" in parameters:
        return {field: [renamed(target, _TARGETS) for target in parameters["targets"]]}
    if "filter" in parameters:
        among = {"brokers": parameters["brokers"]} if "brokers" in parameters else {}
        return {"filter": renamed(parameters["filter"], names), **all_of(parameters), **among}
    return {}


def window_words(from_ms: int | None, to_ms: int | None) -> str:
    """Return the stretch of time that a filter names, by the reader's clock; "" where it names none."""
    if from_ms is not None and to_ms is not None:
        return gettext("from %(from)s to before %(to)s") % {"from": time_words(from_ms), "to": time_words(to_ms)}
    if from_ms is not None:
        return gettext("from %(from)s on") % {"from": time_words(from_ms)}
    return gettext("before %(to)s") % {"to": time_words(to_ms)} if to_ms is not None else ""


def time_words(ms: int) -> str:
    """Return a time by the reader's clock, with its zone; in milliseconds where no calendar has it."""
    try:
        at = local_time(ms)
    except (OSError, OverflowError, ValueError):
        return f"{ms:,} ms"
    rest = f".{ms % 1000:03d}" if ms % 1000 else ""
    return f"{at:%Y-%m-%d %H:%M:%S}{rest} {at.tzname()}"


def is_whole(given: object) -> bool:
    """Return whether this is a whole number that the broker can hold."""
    return isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 2**63


def checked_filter(
    given: Mapping[str, Any], texts: Sequence[str], moments: Sequence[str], longest: int
) -> dict[str, Any]:
    """Return the fields of a filter, empty and None where they are not given; raises InvalidParameter."""
    found = {name: given.get(name) or "" for name in texts}
    for name, text in found.items():
        if not isinstance(text, str) or len(text) > longest:
            raise InvalidParameter(name, f"{name} is a text of at most {longest:,} characters.")
    bounds = {name: given.get(name) for name in moments}
    for name, bound in bounds.items():
        if bound is not None and not is_whole(bound):
            raise InvalidParameter(name, f"{name} must be a time in epoch milliseconds.")
    return {**found, **bounds}


def all_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the field by which REST is told that an empty filter is meant."""
    return {"all": True} if parameters.get("is_all") else {}
