"""Sends of one message each, as they go out on a line: many at once, each answered on its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence

from ..rocketmq.codes import Request
from .deadlines import Deadline
from .destinations import Destination
from .errors import ClientError
from .outgoing import Outgoing
from .pipeline import Answered, Line, Lines, Outcome
from .send_results import result_of
from .types import SendResult

SEND = int(Request.SEND_MESSAGE_V2)


def fields_of(way: Destination, message: Outgoing) -> bytes:
    """The encoded header fields of a send that leaves now."""
    return way.fields(time.time_ns() // 1_000_000, message.properties)


async def line_with_room(lines: Lines, address: str, deadline: Deadline) -> Line:
    """An open line on which something can be written. Raises BrokerUnreachable, Timeout."""
    line = lines.ready(address)
    if line is None:
        line = await deadline.of(lines.to(address), f"a connection to {address}")
    if not line.has_room:
        await deadline.of(line.room(), f"{address} to read what was sent before")
    return line


async def ask_each(
    lines: Lines, ways: Sequence[Destination | ClientError], messages: Sequence[Outgoing], deadline: Deadline
) -> list[SendResult | ClientError]:
    """What becomes of each message, in order, in one write to each broker; one without a way has its error already.

    Raises BrokerUnreachable where no broker can be connected to; one that cannot harms no message for another.
    """
    connected, failed = await _connect(lines, {way.address for way in ways if isinstance(way, Destination)}, deadline)
    results: list[SendResult | ClientError | None] = [
        way if isinstance(way, ClientError) else failed.get(way.address) for way in ways
    ]
    going = [(nth, way) for nth, way in enumerate(ways) if isinstance(way, Destination) and way.address in connected]
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

    timeout_ms = deadline.left_ms
    for nth, way in going:
        message = messages[nth]
        connected[way.address].ask(SEND, fields_of(way, message), message.body, timeout_ms, answer_to(nth, way))
    for line in connected.values():
        line.flush()  # the broker works on these while the next batch is read here
    if going:
        await done
    return [result for result in results if result is not None]


async def _connect(
    lines: Lines, addresses: Collection[str], deadline: Deadline
) -> tuple[dict[str, Line], dict[str, ClientError]]:
    """Open lines with room, and why others are not; raises the error where none is open."""
    connected: dict[str, Line] = {}
    failed: dict[str, ClientError] = {}

    async def connect(address: str) -> None:
        try:
            connected[address] = await line_with_room(lines, address, deadline)
        except ClientError as error:
            failed[address] = error

    for address in addresses:
        line = lines.ready(address)
        if line is not None and line.has_room:
            connected[address] = line
    if len(connected) < len(addresses):
        await asyncio.gather(*(connect(address) for address in addresses if address not in connected))
    if failed and not connected:
        raise next(iter(failed.values()))
    return connected, failed
