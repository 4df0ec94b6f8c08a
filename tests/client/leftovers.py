"""Clients of the synchronous API that a test leaves behind: their heartbeats go on, and fail, long after its broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from broker.client._event_loop import event_loop_thread
from broker.client._membership import TASK_NAME


def no_client_left() -> Iterator[None]:
    """For an autouse fixture of a module: all clients that it began are closed at its end."""
    before = _beating()
    yield
    left = _beating() - before
    assert not left, f"these clients were not closed: {sorted(left)}"


def _beating() -> set[str]:
    async def names() -> set[str]:
        return {task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith(TASK_NAME)}

    return event_loop_thread.run(names(), timeout_s=10)
