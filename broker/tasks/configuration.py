"""What TASKS says about a backend, and the topics and the group of its tasks.

| OPTIONS     | default              | meaning                                                                    |
|-------------|----------------------|----------------------------------------------------------------------------|
| `PREFIX`    | "tasks"              | what the names of its topics and of its consumer group begin with           |
| `DATABASES` | the router's for it  | where its tasks are; the one whose transaction is open decides              |
| `RETRY`     | none                 | of tasks that say nothing: {"times": 3, "pause": timedelta(seconds=10)}     |
| `KEEP_DAYS` | 14                   | how long a task that is over is kept                                        |

A queue is three topics, one a level of priority, so that what is urgent passes what waits:

| priority   | topic                   |
|------------|-------------------------|
| 1 to 100   | tasks_<queue>_high      |
| 0          | tasks_<queue>           |
| -100 to -1 | tasks_<queue>_low       |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import router

from ..client.errors import InvalidArgument
from ..client.names import check_group, check_writable_topic
from .retrying import NEVER, Retry, read_retry

DEFAULT_PREFIX = "tasks"
DEFAULT_KEEP_DAYS = 14
_NAMES = ("PREFIX", "DATABASES", "RETRY", "KEEP_DAYS")
#: Levels of priority, the most urgent first, and how their topics end.
LEVELS = ("_high", "", "_low")


@dataclass(frozen=True, slots=True)
class Options:
    """The checked OPTIONS of a backend."""

    prefix: str = DEFAULT_PREFIX
    databases: tuple[str, ...] = ()
    retry: Retry = NEVER
    keep_days: float = DEFAULT_KEEP_DAYS

    @property
    def group(self) -> str:
        """The consumer group of its workers."""
        return f"{self.prefix}_workers"

    def topic(self, queue: str, priority: int) -> str:
        """Return the topic of a queue for this priority."""
        return f"{self.prefix}_{queue}{LEVELS[level_of(priority)]}"

    def topics(self, queue: str) -> tuple[str, ...]:
        """Return the topics of a queue, the most urgent first."""
        return tuple(f"{self.prefix}_{queue}{level}" for level in LEVELS)

    def own_databases(self) -> tuple[str, ...]:
        """Return where its tasks are; the first one takes what no transaction decides."""
        from .models import TaskRow

        return self.databases or (router.db_for_write(TaskRow),)


def level_of(priority: int) -> int:
    """Return the index in LEVELS of a priority."""
    return 0 if priority > 0 else 1 if priority == 0 else 2


def read_options(alias: str, given: Mapping[str, Any]) -> Options:
    """Return the options of TASKS[alias]; raises ImproperlyConfigured."""
    unknown = sorted(set(given) - set(_NAMES))
    if unknown:
        raise ImproperlyConfigured(
            f"TASKS[{alias!r}]: OPTIONS has {', '.join(unknown)}, which means nothing. There are {', '.join(_NAMES)}."
        )
    databases = given.get("DATABASES", ())
    keep_days = given.get("KEEP_DAYS", DEFAULT_KEEP_DAYS)
    try:
        if isinstance(databases, str):
            raise ValueError("DATABASES is a list of names, such as ['default'].")
        if not isinstance(keep_days, (int, float)) or keep_days <= 0:
            raise ValueError(f"KEEP_DAYS={keep_days!r} is not valid: a number above 0.")
        options = Options(
            str(given.get("PREFIX", DEFAULT_PREFIX)), tuple(databases), read_retry(given.get("RETRY")), keep_days
        )
        check_group(options.group)
    except (ValueError, InvalidArgument) as error:
        raise ImproperlyConfigured(f"TASKS[{alias!r}]: OPTIONS: {error}") from None
    return options


def check_queue(options: Options, queue: str, others: Iterable[str] = ()) -> None:
    """Raise ValueError for a queue whose topics cannot be, or are those of another one."""
    for topic in options.topics(queue):
        try:
            check_writable_topic(topic)
        except InvalidArgument as error:
            raise ValueError(f"Queue {queue!r} cannot be a topic: {error}") from None
    mine = set(options.topics(queue))
    for other in others:
        if other != queue and mine & set(options.topics(other)):
            raise ValueError(f"Queues {queue!r} and {other!r} would share a topic: call one of them otherwise.")
