"""A backend for Django's tasks on this broker: `django.tasks` of Django 6, or the package django-tasks for 5.2.

>>> TASKS = {"default": {"BACKEND": "escapement_mq.tasks.EscapementBackend"}}

A task is a row in the project's own database and a message that names it. Row and message are written in one
transaction (the message by the outbox), so a task is there if and only if the transaction commits. `run_after` and
the pauses between attempts are timers of the broker. `manage.py tasks_worker` runs what comes.

The row decides: a message whose task is over, was cancelled or was moved meanwhile does nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backend import EscapementBackend as EscapementBackend
    from .retrying import retry as retry
    from .sending import decided_by as decided_by
    from .states import TaskCancelled as TaskCancelled
    from .states import WorkerDied as WorkerDied
    from .steering import Answer as Answer
    from .steering import acancel as acancel
    from .steering import areschedule as areschedule
    from .steering import cancel as cancel
    from .steering import reschedule as reschedule

_HOMES = {
    "Answer": "steering",
    "EscapementBackend": "backend",
    "TaskCancelled": "states",
    "WorkerDied": "states",
    "acancel": "steering",
    "areschedule": "steering",
    "cancel": "steering",
    "decided_by": "sending",
    "reschedule": "steering",
    "retry": "retrying",
}
__all__ = [
    "Answer",
    "EscapementBackend",
    "TaskCancelled",
    "WorkerDied",
    "acancel",
    "areschedule",
    "cancel",
    "decided_by",
    "reschedule",
    "retry",
]


def __getattr__(name: str) -> Any:
    """Load what is asked for at its first use: Django imports this package before models may be."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
