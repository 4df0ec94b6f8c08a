"""Boarding reminders at the broker: timers that are set, moved and taken back under their flight's key."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

from broker.client import (
    AsyncAdmin,
    AsyncProducer,
    ClientError,
    NotSupported,
    Outgoing,
    TimerTarget,
    prepare,
)

from .plan import BOARDING, Reminder
from .schedule import Departure

logger = logging.getLogger(__name__)

Step = Literal["set", "move", "cancel"]
#: In the order in which they happen to one flight.
STEPS: tuple[Step, ...] = ("set", "move", "cancel")


class Reminders:
    """Sends steps to the broker and counts what became of them."""

    def __init__(self, producer: AsyncProducer, admin: AsyncAdmin) -> None:
        self._producer = producer
        self._admin = admin
        self._counts: Counter[str] = Counter()
        self._is_told = False

    @property
    def said(self) -> str:
        """Return the counts as one line."""
        counts = self._counts
        return f"reminders: {counts['set']:,} set, {counts['rescheduled']:,} moved, {counts['cancelled']:,} taken back"

    async def do(self, step: Step, departures: Sequence[Departure], due_ms: Callable[[int], int]) -> list[Departure]:
        """Take one kind of step for several flights. Returns those that failed, which are to be tried again."""
        steps = [each.announcement for each in departures if isinstance(each.announcement, Reminder)]
        try:
            if step == "set":
                return await self._set(departures, steps, due_ms)
            await self._steer(step, steps, due_ms)
        except NotSupported:
            self._counts["not supported"] += len(steps)
            if not self._is_told:
                self._is_told = True
                logger.warning("this broker knows no schedule keys: reminders are neither moved nor taken back")
        except ClientError as error:
            logger.warning("reminders: %s", error)
            return list(departures)
        return []

    async def _set(
        self, departures: Sequence[Departure], steps: Sequence[Reminder], due_ms: Callable[[int], int]
    ) -> list[Departure]:
        results = await self._producer.send_each(BOARDING, [_message(step, due_ms) for step in steps])
        self._counts["set"] += sum(not isinstance(result, ClientError) for result in results)
        return [each for each, result in zip(departures, results, strict=True) if isinstance(result, ClientError)]

    async def _steer(
        self, step: Literal["move", "cancel"], steps: Sequence[Reminder], due_ms: Callable[[int], int]
    ) -> None:
        targets = [
            TimerTarget(
                topic=BOARDING,
                schedule_key=each.flight.key,
                due_ms=due_ms(each.event) if each.event is not None else None,
            )
            for each in steps
        ]
        reason = "the flight is late" if step == "move" else "the flight is cancelled"
        steered = await self._admin.steer_timers(
            "reschedule" if step == "move" else "cancel", targets, reason=reason, reference="airport"
        )
        self._counts.update(result.outcome for result in steered.results)


def _message(step: Reminder, due_ms: Callable[[int], int]) -> Outgoing:
    flight = step.flight
    return prepare(
        step.body,
        tag=flight.carrier,
        keys=[flight.key],
        properties={"origin": flight.origin, "destination": flight.destination},
        deliver_at_ms=due_ms(step.event) if step.event is not None else None,
        schedule_key=flight.key,
        on_conflict="replace",
    )
