"""What the first page needs beside the mirror: timers ahead, Redisson's queues. Read at most every FRESH_S."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from threading import Lock

from django.conf import settings

from broker.client import Admin
from broker.client.timers import Herd, TimerStatus
from console.features.redisson.read import delayed_queues
from console.features.redisson.shapes import QUEUES_SHOWN, QueueRow
from console.features.timers.zoom import ZOOMS
from console.security.topic_scope import Eyes
from console.site.broker import ask
from console.site.mirrored import Mirrored

#: older answers are asked for again by whoever comes first; the others are shown what there is
FRESH_S = 10.0
_AHEAD = ZOOMS["1d"]
MOST_QUEUES = 1_000


@dataclass(frozen=True, slots=True)
class Afar:
    """None: not told, or not to be had now."""

    timers: TimerStatus | None = None
    herds: tuple[Herd, ...] = ()
    #: Redisson's queues with something wrong
    queues: tuple[QueueRow, ...] | None = None


_kept: dict[tuple[str, str], tuple[float, Afar]] = {}
_asking = Lock()


def afar(here: Mirrored) -> Afar:
    """What was known at most FRESH_S ago, or while somebody else asks, what was known before."""
    key = (settings.ESCAPEMENT_NAMESRV, settings.REDISSON_URL)
    made_s, found = _kept.get(key, (0.0, Afar()))
    if made_s and time.monotonic() - made_s < FRESH_S:
        return found
    if not _asking.acquire(blocking=False):
        return found
    try:
        found = _read(here)
        _kept[key] = (time.monotonic(), found)
    finally:
        _asking.release()
    return found


def seen_by(eyes: Eyes, known: Afar) -> Afar:
    """Without the names of topics and queues that are not seen."""
    if eyes.see_all:
        return known
    herds = tuple(
        Herd(herd.due_ms, herd.count, [each for each in herd.topics if eyes.topic(each.topic)], herd.last_late_ms)
        for herd in known.herds
    )
    queues = None if known.queues is None else tuple(row for row in known.queues if eyes.queue(row.name))
    return replace(known, herds=herds, queues=queues)


def forget() -> None:
    """Ask anew the next time."""
    _kept.clear()


def _read(here: Mirrored) -> Afar:
    queues = _queues()
    # a broker that the mirror cannot reach would only keep the page waiting
    if here.polling or here.evidence(polled_by=()).stale:
        return Afar(queues=queues)
    status, _ = ask(lambda admin: admin.timer_status(), source=here.name, requests=())
    herds, _ = ask(lambda admin: _herds(admin, here.now_ms), source=here.name, requests=())
    return Afar(status, herds or (), queues)


def _herds(admin: Admin, now_ms: int) -> tuple[Herd, ...]:
    return tuple(admin.timer_forecast(now_ms, now_ms + _AHEAD.span_ms, _AHEAD.step_ms).herds)


def _queues() -> tuple[QueueRow, ...] | None:
    """Of all queues, up to MOST_QUEUES, those that need a look; None if their server does not answer."""
    found: list[QueueRow] = []
    for offset in range(0, MOST_QUEUES, QUEUES_SHOWN):
        part = delayed_queues(offset=offset)
        if part.evidence.stale:
            return None
        found += (row for row in part.rows if row.needs_look)
        if offset + QUEUES_SHOWN >= part.total:
            break
    return tuple(found)
