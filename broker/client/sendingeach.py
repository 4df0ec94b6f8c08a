"""Sends of one message each, as they go out on a line: many at once, each answered on its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from ..remoting.codes import Request
from .destinations import Destination
from .errors import ClientError
from .line import Answered, Lines, Outcome
from .outgoing import Outgoing
from .sendresults import result_of
from .types import SendResult

SEND = int(Request.SEND_MESSAGE_V2)


def fields_of(way: Destination, message: Outgoing) -> bytes:
    """The encoded header fields of a send that leaves now."""
    return way.fields(time.time_ns() // 1_000_000, message.properties)


async def ask_each(
    lines: Lines, ways: Sequence[Destination | ClientError], messages: Sequence[Outgoing], timeout_ms: int
) -> list[SendResult | ClientError]:
    """What becomes of each message, in order, in one write to each broker; one without a way has its error already.

    Raises BrokerUnreachable where a broker cannot be connected to.
    """
    results: list[SendResult | ClientError | None] = [way if isinstance(way, ClientError) else None for way in ways]
    going = [(nth, way) for nth, way in enumerate(ways) if isinstance(way, Destination)]
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    left = len(going)

    def answer_to(nth: int, way: Destination) -> Answered:
        def answered(outcome: Outcome) -> None:
            nonlocal left
            results[nth] = result_of(way, messages[nth], outcome)
            left -= 1
            if not left and not done.done():
                done.set_result(None)

        return answered

    connected = {address: await lines.to(address) for address in {way.address for _, way in going}}
    for line in connected.values():
        await line.room()
    for nth, way in going:
        message = messages[nth]
        connected[way.address].ask(SEND, fields_of(way, message), message.body, timeout_ms, answer_to(nth, way))
    for line in connected.values():
        line.flush()  # the broker works on these while the next batch is read here
    if going:
        await done
    return [result for result in results if result is not None]
