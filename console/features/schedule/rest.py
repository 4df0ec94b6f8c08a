"""Delay levels by REST: how long each waits, and what waits on it."""

from __future__ import annotations

from msgspec import Struct
from starlette.responses import Response

from broker.rocketmq.topics import SCHEDULE_TOPIC
from console.rest.access import Overview
from console.rest.responses import json_answer
from console.rest.route import Call, route
from console.security.tokens import READ


class LevelRow(Struct, kw_only=True):
    """One delay level: `backlog` messages wait, `offset` was released last, `max_offset` is the end of its queue."""

    level: int
    delay_ms: int
    offset: int
    max_offset: int
    backlog: int


class LevelList(Struct, kw_only=True):
    """The delay levels of the broker."""

    levels: list[LevelRow]


@route(
    "GET",
    "/schedule/levels",
    "List delay levels",
    action=READ,
    on=Overview(),
    answers=((200, "Levels.", LevelList),),
)
async def levels(call: Call) -> Response:
    """List the delay levels and what waits on each."""
    admin = call.state.admin
    delays = await admin.delay_levels()
    released = await admin.delay_offsets()
    ends = {each.queue.queue_id: each.max_offset for each in (await admin.topic_stats(SCHEDULE_TOPIC)).queues}
    rows = []
    for level, delay_ms in enumerate(delays, start=1):
        end, offset = ends.get(level - 1, 0), released.get(level, 0)
        rows.append(
            LevelRow(level=level, delay_ms=delay_ms, offset=offset, max_offset=end, backlog=max(0, end - offset))
        )
    return json_answer(LevelList(levels=rows))
