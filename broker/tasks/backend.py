"""`EscapementBackend`: what TASKS names. It is loaded before models may be, so its methods load what they need.

>>> TASKS = {"default": {"BACKEND": "escapement_mq.tasks.EscapementBackend", "QUEUES": ["default", "mails"]}}
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.apps import apps
from django.core import checks
from django.db import connections

from ..outbox.configuration import NotConfigured, producer_groups
from .configuration import Options, check_queue, read_options
from .framework import BaseTaskBackend, InvalidTask, Task, TaskResult

OUTBOX_LABEL = "escapement_outbox"
OWN_LABEL = "escapement_tasks"


class EscapementBackend(BaseTaskBackend):
    """Tasks as rows of the project's database and messages of the broker."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        """Read what TASKS says; raises ImproperlyConfigured."""
        super().__init__(alias, params)
        self.named: Options = read_options(alias, self.options)

    def validate_task(self, task: Task[Any, Any]) -> None:
        """Raise InvalidTask for a task that could not be run."""
        super().validate_task(task)
        try:
            check_queue(self.named, task.queue_name)
        except ValueError as error:
            raise InvalidTask(str(error)) from None

    def enqueue(self, task: Task[Any, Any], args: Any, kwargs: Any) -> TaskResult[Any, Any]:
        """Write the task down; it is sent when the transaction commits, outside of one immediately.

        Raises InvalidTask where it cannot be said which transaction decides, ClientError where the broker says no.
        """
        from .sending import enqueue

        self.validate_task(task)
        return enqueue(type(self), self.named, self.alias, task, args, kwargs)

    def get_result(self, result_id: str) -> TaskResult[Any, Any]:
        """Return the task as it is now; raises TaskResultDoesNotExist."""
        from .states import as_result, find

        return as_result(find(self.named, result_id)[0])

    def check(self, **kwargs: Any) -> list[checks.CheckMessage]:
        """Return what is wrong with the settings, as system checks."""
        return [*super().check(**kwargs), *self._faults()]

    def _faults(self) -> Iterable[checks.CheckMessage]:
        for label, name in ((OUTBOX_LABEL, "outbox"), (OWN_LABEL, "tasks")):
            if label not in {config.label for config in apps.get_app_configs()}:
                package = __package__.rpartition(".")[0]
                yield self._error(
                    "E001", f"the app of {name} is missing.", f"Add '{package}.{name}' to INSTALLED_APPS, and migrate."
                )
        try:
            producer_groups()
        except NotConfigured as error:
            yield self._error("E002", "no producer group sends its messages.", str(error))
        for alias in self.named.databases:
            if alias not in connections.settings:
                yield self._error("E003", f"there is no database {alias!r}.", "DATABASES names entries of DATABASES.")
        for queue in sorted(self.queues):
            try:
                check_queue(self.named, queue, self.queues)
            except ValueError as error:
                yield self._error("E004", str(error), "Letters, digits, - and _ can be used.")

    def _error(self, number: str, what: str, hint: str) -> checks.Error:
        return checks.Error(f"TASKS[{self.alias!r}]: {what}", hint=hint, id=f"escapement_tasks.{number}")
