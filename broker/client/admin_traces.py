"""The part of the asynchronous admin that reads what clients with tracing have told."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..rocketmq.traces import TRACE_TOPIC, Trace, read_traces
from .errors import RouteNotFound
from .types import Message


class TraceQuestions(ABC):
    """What an admin can ask about the way of a message."""

    @abstractmethod
    async def messages_by_key(self, topic: str, key: str, max_count: int = 64) -> list[Message]:
        """Messages of the topic with this key, newest first."""

    async def traces(self, unique_id: str, *, topic: str = TRACE_TOPIC, max_count: int = 64) -> list[Trace]:
        """What was told of a message, oldest first; nothing if its clients do not trace. `topic`: where they tell it.

        A client tells within some seconds. A message's events may come twice, as every message may.
        """
        try:
            told = await self.messages_by_key(topic, unique_id, max_count)
        except RouteNotFound:
            return []
        events = [each for message in told for each in read_traces(message.body) if each.unique_id == unique_id]
        return sorted(dict.fromkeys(events), key=lambda each: (each.at_ms or 0, _ORDER[each.kind]))


_ORDER = {"sent": 0, "ended": 1, "recalled": 2, "delivered": 3, "handled": 4}
