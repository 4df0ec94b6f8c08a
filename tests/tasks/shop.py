"""Tasks of the tests. What they did stands in `done`, which tests empty."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

from broker.tasks import retry
from broker.tasks.framework import TaskContext
from tests.tasks.decorator import task

done: list[Any] = []
begun = threading.Event()
go_on = threading.Event()


def forget() -> None:
    """Begin anew, for the next test."""
    done.clear()
    begun.clear()
    go_on.clear()


@task
def remind(number: int, *, text: str = "") -> dict[str, Any]:
    """Note a number and return it."""
    done.append(number)
    return {"number": number, "text": text}


@task
async def remind_later(number: int) -> int:
    """The same as a coroutine."""
    done.append(number)
    return number


@task(takes_context=True)
def count(context: TaskContext) -> int:
    """Return which attempt this is."""
    return context.attempt


@task
@retry(times=2, pause=timedelta(milliseconds=30), on=(ConnectionError,))
def charge(fails: int) -> str:
    """Fail so many times."""
    done.append("charge")
    if len(done) <= fails:
        raise ConnectionError("the bank is away")
    return "charged"


@task
@retry(times=1, pause=timedelta(hours=1))
def charge_later() -> None:
    """Fail, to be tried again in an hour."""
    raise ConnectionError("the bank is away")


@task
def fail() -> None:
    """Fail for good."""
    raise LookupError("no such order")


@task
def leave() -> None:
    """End as nobody should."""
    raise SystemExit(3)


@task
def give_set() -> Any:
    """Return what is no JSON."""
    return {1, 2}


@task
def hold(number: int) -> None:
    """Run until a test lets it go on."""
    begun.set()
    assert go_on.wait(20)
    done.append(number)
