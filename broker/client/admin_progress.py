"""The part of the asynchronous admin that looks for places in queues, and moves groups to them."""

from __future__ import annotations

from ..rocketmq.codes import Request
from .admin_base import Questions
from .errors import BadAnswer


class ProgressQuestions(Questions):
    """What an admin can ask and change about how far groups are."""

    async def offset_at(self, topic: str, queue_id: int, at_ms: int) -> int:
        """The offset of the first message of a queue stored at `at_ms` or later; the queue's end if there is none."""
        ext = {"topic": topic, "queueId": str(queue_id), "timestamp": str(at_ms), "boundaryType": "LOWER"}
        answer = await self._ask(Request.SEARCH_OFFSET_BY_TIMESTAMP, ext, topic=topic)
        try:
            return int(answer.ext["offset"])
        except (KeyError, ValueError):
            raise BadAnswer("The broker did not say an offset.") from None

    async def move_group(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Have a group go on at `offset` of a queue, also consumers that are at work (request 222).

        Raises BrokerRefused for an offset that the queue does not have, or an unknown group or topic.
        """
        ext = {
            "topic": topic, "group": group, "queueId": str(queue_id), "offset": str(offset), "timestamp": "-1",
            "isForce": "true",
        }  # fmt: skip
        await self._ask(Request.INVOKE_BROKER_TO_RESET_OFFSET, ext, topic=topic)
