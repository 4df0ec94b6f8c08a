"""Histories made by hand, for tests of the checker: `told` has one short line an event."""

from __future__ import annotations

from typing import Any

from tests.reliability.history import Event, Outcome

TOPIC = "orders"
GROUP = "readers"


class Story:
    """Events, a second apart unless it is said when."""

    def __init__(self, *, letters: bool = False) -> None:
        self.events: list[Event] = []
        self._ms = 1_000_000
        self._offsets = 0
        self._add("reader", GROUP, topic=TOPIC)
        if letters:
            self._add("letters", GROUP, attempts=3)

    def _add(
        self, op: str, name: str, outcome: Outcome = "ok", *, at: int | None = None, lasts: int = 0, **about: Any
    ) -> Story:
        self._ms = self._ms + 1_000 if at is None else 1_000_000 + at
        self.events.append(Event(self._ms, self._ms + lasts, "client", op, name, outcome, about))
        return self

    def send(self, name: str, outcome: Outcome = "ok", kind: str = "plain", **more: Any) -> Story:
        """A message is sent."""
        return self._add("send", name, outcome, **{"kind": kind, "topic": TOPIC, **more})

    def hand(self, name: str, offset: int | None = None, **more: Any) -> Story:
        """A message is handed to the group."""
        return self._add("hand", name, **{**self._place(offset), "group": GROUP, "attempt": 0, **more})

    def stored(self, name: str, offset: int | None = None, *, topic: str = TOPIC, **more: Any) -> Story:
        """A message is found in a topic at the end."""
        return self._add("stored", name, **{**self._place(offset), "topic": topic, **more})

    def shown(self, name: str, offset: int | None = None, **more: Any) -> Story:
        """A message is handed out, and found at the end."""
        place = self._place(offset, more.get("at"))
        self._add("hand", name, **{"group": GROUP, "attempt": 0, **place, **more})
        more.pop("at", None)
        return self._add("stored", name, **{**place, **more})

    def do(self, op: str, name: str, outcome: Outcome = "ok", **more: Any) -> Story:
        """Anything else."""
        return self._add(op, name, outcome, **more)

    def _place(self, offset: int | None, at: int | None = None) -> dict[str, Any]:
        if offset is None:
            offset, self._offsets = self._offsets, self._offsets + 1
        stored_ms = self._ms + 1_000 if at is None else 1_000_000 + at
        return {"topic": TOPIC, "queue": 0, "offset": offset, "store_ms": stored_ms, "intact": True}
