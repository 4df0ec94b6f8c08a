"""The eta of a task, where Celery's tasks look for it: `self.request.eta`.

It was taken out of the headers when the task was sent, so that the worker does not wait a second time; the header
`timer` kept it. It is put back when the task begins.
"""

from __future__ import annotations

from typing import Any

from celery.signals import task_prerun


@task_prerun.connect(weak=False)
def put_back(task: Any = None, **_: Any) -> None:
    """Have a task that was a timer know its moment."""
    timer = getattr(task.request, "timer", None)
    if timer is not None:
        task.request.eta = timer
