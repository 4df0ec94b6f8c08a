"""When undecided halves are asked about next, from the mirror's rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from broker.mirror.halves import MOST_OPEN
from broker.mirror.models import HalfMessage
from console.site.evidence import StaleReason
from console.site.mirrored import Mirrored

_ASKED_ABOUT = (HalfMessage.State.OPEN, HalfMessage.State.DUE)


@dataclass(frozen=True, slots=True)
class ChecksDue:
    """The moments of the next checks at one broker; None: it does not tell them."""

    broker: str
    moments_ms: tuple[int, ...] | None
    #: False: more halves are open than the mirror has rows of
    is_whole: bool = True
    why: StaleReason | None = None


def checks_due(brokers: Sequence[Mirrored], is_seen: Callable[[str], bool]) -> list[ChecksDue]:
    """Return the next check of each half whose topic is seen, by one query; of an Apache broker nothing is told."""
    rows = HalfMessage.objects.filter(broker__in=[here.name for here in brokers], state__in=_ASKED_ABOUT)
    found: dict[str, list[tuple[str, int | None]]] = {}
    for broker, topic, at_ms in rows.order_by().values_list("broker", "topic", "next_check_ms"):
        found.setdefault(broker, []).append((topic, at_ms))
    return [_of(here, found.get(here.name, ()), is_seen) for here in brokers]


def _of(here: Mirrored, rows: Sequence[tuple[str, int | None]], is_seen: Callable[[str], bool]) -> ChecksDue:
    if here.polling:
        return ChecksDue(here.name, None, why=StaleReason.NOT_SUPPORTED)
    if here.as_of_ms is None:
        return ChecksDue(here.name, None, why=StaleReason.MIRROR_EMPTY)
    moments = sorted(at_ms for topic, at_ms in rows if at_ms is not None and is_seen(topic))
    return ChecksDue(here.name, tuple(moments), is_whole=len(rows) < MOST_OPEN)
