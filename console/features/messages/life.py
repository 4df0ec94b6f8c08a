"""Joins a message's records and what its clients told to one line of time, and each told step to its record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from broker.client import Message
from console.features.messages.life_shapes import LifeStep, StepKind
from console.features.messages.shapes import Hop, HopKind
from console.features.messages.traces import Told

#: clocks of clients and broker differ: a message may seem to be consumed so long before it was stored
CLOCKS_APART_MS = 2_000
_STORED = (HopKind.STORED, HopKind.RELEASED)


def steps_of(opened: Message, hops: Sequence[Hop], told: Sequence[Told]) -> tuple[LifeStep, ...]:
    """Oldest first; of one moment in the order of the log, each record before what was done with it.

    Steps without a moment come last.
    """
    steps = [*_from_records(opened, hops, told), *(_told_step(line, hops) for line in told)]
    numbers = {hop.position: number for number, hop in enumerate(hops)}
    after_all = len(hops)

    def place(step: LifeStep) -> tuple[int, int, bool]:
        number = -1 if step.kind is StepKind.BORN else numbers[step.hop.position] if step.hop else after_all
        return step.ms or 0, number, step.is_told

    placed = sorted((step for step in steps if step.ms is not None), key=place)
    ordered: list[LifeStep] = []
    for step in placed:
        before = ordered[-1].ms if ordered else None
        ordered.append(replace(step, after_ms=None if before is None or step.ms is None else step.ms - before))
    return (*ordered, *(step for step in steps if step.ms is None))


def _from_records(opened: Message, hops: Sequence[Hop], told: Sequence[Told]) -> Iterator[LifeStep]:
    if not any(line.what == "sent" and line.at_ms is not None for line in told):
        host, port = opened.born_host
        yield LifeStep(StepKind.BORN, opened.born_ms, None, None, client=f"{host}:{port}")
    for hop in hops:
        yield LifeStep(StepKind(hop.kind.value), hop.store_ms, None, hop, group=hop.group)


def _told_step(line: Told, hops: Sequence[Hop]) -> LifeStep:
    return LifeStep(
        StepKind(line.what), line.at_ms, None, _record_of(line, hops), True, line.group, line.client, line.took_ms,
        line.succeeded, line.retries, line.state,
    )  # fmt: skip


def _record_of(line: Told, hops: Sequence[Hop]) -> Hop | None:
    if line.what == "sent" and line.succeeded is not False:
        firsts = [hop for hop in hops if hop.kind in (HopKind.STORED, HopKind.PARKED)]
        later = [hop for hop in firsts if line.at_ms is None or hop.store_ms >= line.at_ms - CLOCKS_APART_MS]
        return later[0] if later else None
    if line.what == "consumed":
        given = [hop for hop in hops if _is_given(hop, line)]
        return given[-1] if given else None
    return None


def _is_given(hop: Hop, line: Told) -> bool:
    """The consumer may have been given this record."""
    if line.at_ms is not None and hop.store_ms > line.at_ms + CLOCKS_APART_MS:
        return False
    if line.retries:
        return hop.kind is HopKind.RETRY and hop.group == line.group and hop.tries == line.retries
    return hop.kind in _STORED
