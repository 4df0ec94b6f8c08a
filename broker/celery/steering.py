"""Tasks that wait for their moment: cancelled and moved by the id of the task, with the broker's answer.

A task with `eta` or `countdown` is a timer of the broker, with the task's id as its schedule key.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from kombu.utils.json import loads

from ..client import InvalidArgument, TimerTarget
from ..client.timers import Steered
from .envelope import Raw, epoch_ms, is_text, raw_of

if TYPE_CHECKING:
    from .link import Link

Action = Literal["cancel", "reschedule"]

#: What the broker says of a task, the most definite first.
_DEFINITE = ("cancelled", "rescheduled", "already_delivered", "already_cancelled", "refused", "changed", "unknown")
_FAR_MS = 100 * 365 * 86_400_000
_AT_ONCE = 32
_CALL_MS = 30_000


def revoke(task_id: str, *, app: Any = None, reason: str = "revoked") -> Steered:
    """Revoke a task, and return what the broker says of its timer.

    `outcome` is `cancelled` if it was still pending: then no worker gets it, and its result is REVOKED. With any
    other (`already_delivered`, `already_cancelled`, `unknown`: it had no eta, or none that is known any more) workers
    are told as `app.control.revoke` tells them, and drop the task unless they have begun. Raises ClientError.
    """
    app = _app(app)
    steered, raw = _steered(app, task_id, "cancel", reason, None)
    if steered.outcome != "cancelled":
        app.control.revoke(task_id)
    elif raw is not None:
        app.backend.mark_as_revoked(task_id, reason, _request(raw), store_result=True)
    return steered


def _request(raw: Raw) -> Any:
    """Return the request that a worker would make of a task: its chord and whoever waits for it are to hear, too."""
    from celery.app.task import Context

    options = loads(raw["body"])[2] if raw.get("content-type") == "application/json" else {}
    about = raw["properties"]
    return Context(raw["headers"], **options, reply_to=about.get("reply_to"), correlation_id=about["correlation_id"])


def reschedule(
    task_id: str, *, eta: datetime | None = None, countdown: float | timedelta | None = None, app: Any = None,
    reason: str = "rescheduled",
) -> Steered:  # fmt: skip
    """Reschedule a pending task, and return what the broker says: `rescheduled`, or why it is not.

    Raises ClientError, ValueError unless one of `eta` and `countdown` is given.
    """
    if (eta is None) == (countdown is None):
        raise ValueError("Give eta or countdown: when the task is to run instead.")
    if countdown is not None:
        seconds = countdown.total_seconds() if isinstance(countdown, timedelta) else countdown
        due_ms = int((time.time() + seconds) * 1000)
    else:
        assert eta is not None
        due_ms = epoch_ms(eta)
    return _steered(_app(app), task_id, "reschedule", reason, due_ms)[0]


def _app(app: Any) -> Any:
    if app is not None:
        return app
    from celery import current_app

    return current_app


def _steered(app: Any, task_id: str, action: Action, reason: str, due_ms: int | None) -> tuple[Steered, Raw | None]:
    with app.connection_for_write() as connection:
        link: Link | None = getattr(connection.transport, "link", None)
    if link is None:
        raise InvalidArgument(f"The broker of this app is {connection.as_uri()}, not escapement://.", field="app")
    queues = {
        name: min(int((queue.queue_arguments or {}).get("x-max-priority") or queue.max_priority or 0), 9)
        for name, queue in app.amqp.queues.items()
    }
    topics = [link.names.queue(name, priority) for name, top in queues.items() for priority in range(top + 1)]
    return link.run(_steer(link, task_id, action, reason, due_ms, topics), _CALL_MS)


async def _steer(
    link: Link, task_id: str, action: Action, reason: str, due_ms: int | None, topics: Iterable[str]
) -> tuple[Steered, Raw | None]:
    """Act on the timer wherever it waits; if it waits nowhere, ask what became of it in these topics."""
    told: list[Steered] = []
    for address, targets in (await _found(link, [task_id])).items():
        for target in targets:
            assert target.position is not None
            message = await link.admin.message_at(target.position, address=address)
            answer = await link.admin.steer_timers(action, [target], reason=reason, due_ms=due_ms, address=address)
            if answer.results[0].outcome in ("cancelled", "rescheduled"):
                return answer.results[0], raw_of(message, is_again=False)
            told += answer.results
    targets = [TimerTarget(topic=topic, schedule_key=task_id) for topic in topics]
    for master in await link.session.masters() if targets else ():
        answer = await link.admin.steer_timers(action, targets, reason=reason, due_ms=due_ms, address=master.address)
        told += answer.results
    return min(told, key=lambda each: _DEFINITE.index(each.outcome), default=Steered("unknown")), None


async def cancel_all(link: Link, task_ids: list[str]) -> int:
    """Cancel the timers of tasks that wait; return how many did."""
    count = 0
    for address, targets in (await _found(link, task_ids)).items():
        for begin in range(0, len(targets), 1000):
            portion = targets[begin : begin + 1000]
            answer = await link.admin.steer_timers("cancel", portion, reason="revoked", address=address)
            count += sum(each.outcome == "cancelled" for each in answer.results)
    return count


async def _found(link: Link, task_ids: list[str]) -> dict[str, list[TimerTarget]]:
    """Return the timers of these tasks that wait, by the address of their brokers. Apache RocketMQ tells of none."""
    to_ms = int(time.time() * 1000) + _FAR_MS
    gate = asyncio.Semaphore(_AT_ONCE)

    async def look(address: str, task_id: str) -> list[TimerTarget]:
        async with gate:
            page = await link.admin.timers(0, to_ms, key=task_id, address=address)
        return [
            TimerTarget(position=each.position) for each in page.items if task_id in (each.schedule_key, *each.keys)
        ]

    found: dict[str, list[TimerTarget]] = {}
    for master in await link.session.masters():
        looks = await asyncio.gather(*(look(master.address, each) for each in task_ids))
        targets = [target for each in looks for target in each]
        if targets:
            found[master.address] = targets
    return found


def asked_to_revoke(exchange: str, message: Raw) -> list[str]:
    """Return the ids of the tasks that a message of Celery's remote control revokes."""
    if not exchange.endswith(".pidbox") or not is_text(message.get("content-encoding")):
        return []
    try:
        command = loads(message["body"])
        if command["method"] != "revoke":
            return []
        ids = command["arguments"]["task_id"]
    except (ValueError, TypeError, KeyError):
        return []
    return [ids] if isinstance(ids, str) else [each for each in ids or () if isinstance(each, str)]
