"""Where one queue begins and ends, and where a group stands in it, as the queue's broker knows it."""

from __future__ import annotations

from ..rocketmq.codes import Answer, Request
from .errors import BadAnswer, BrokerRefused
from .remoting import Response
from .session import Session
from .types import MessageQueue


class QueueOffsets:
    """Asks about one queue for one group. Every method raises ClientError."""

    def __init__(self, session: Session, group: str, queue: MessageQueue) -> None:
        self.queue = queue
        self._session = session
        self._group = group

    def about(self) -> dict[str, str]:
        """The fields that name group and queue in most requests."""
        return {
            "consumerGroup": self._group,
            "topic": self.queue.topic,
            "queueId": str(self.queue.queue_id),
            "bname": self.queue.broker,
        }

    async def address(self) -> str:
        """Where the queue's broker is now; raises BrokerRefused if it does not hold the topic any more."""
        route = await self._session.route(self.queue.topic)
        address = route.addresses.get(self.queue.broker)
        if address is None:
            raise BrokerRefused(Answer.TOPIC_NOT_EXIST, f"Broker {self.queue.broker} does not hold the topic now.")
        return address

    async def begin(self) -> int:
        """The offset of the first message that is still there."""
        return await self._number(Request.GET_MIN_OFFSET, {})

    async def end(self) -> int:
        """The offset that the next message will have."""
        return await self._number(Request.GET_MAX_OFFSET, {"committed": "true"})

    async def at_time(self, at_ms: int) -> int:
        """The offset of the first message stored at `at_ms` or later; the end if there is none."""
        return await self._number(
            Request.SEARCH_OFFSET_BY_TIMESTAMP, {"timestamp": str(at_ms), "boundaryType": "LOWER"}
        )

    async def _number(self, code: int, more: dict[str, str]) -> int:
        answer = await self._session.ask(await self.address(), code, self.about() | more)
        return offset_in(answer)

    async def committed(self) -> int | None:
        """What the group has committed; None if nothing."""
        ext = self.about() | {"setZeroIfNotFound": "false"}
        answer = await self._session.ask(
            await self.address(), Request.QUERY_CONSUMER_OFFSET, ext, accept=(Answer.SUCCESS, Answer.QUERY_NOT_FOUND)
        )
        return offset_in(answer) if answer.code == Answer.SUCCESS else None

    async def commit(self, offset: int, *, confirmed: bool) -> None:
        """Note that the group is done with all below `offset`; `confirmed` waits for the broker's answer."""
        ext = self.about() | {"commitOffset": str(offset)}
        address = await self.address()
        if confirmed:
            await self._session.ask(address, Request.UPDATE_CONSUMER_OFFSET, ext)
        else:
            await self._session.tell(address, Request.UPDATE_CONSUMER_OFFSET, ext)


def offset_in(answer: Response) -> int:
    """The offset that a broker answered; raises BadAnswer."""
    try:
        return int(answer.ext["offset"])
    except (KeyError, ValueError):
        raise BadAnswer("The broker did not say an offset.") from None
