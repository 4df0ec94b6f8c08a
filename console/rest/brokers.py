"""The brokers that a request is about: the one that it names, or all of the cluster.

A list is asked of every broker, beside each other; those that do not answer are named beside the rows of the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from django.http import Http404

from broker.client import AsyncAdmin, ClientError
from console.rest.errors import BrokerUnknown
from console.rest.state import ApiState
from console.site.chosen import choice_of, choosing
from console.site.mirrored import cluster

Row = TypeVar("Row")


@contextmanager
def of_broker(broker: str) -> Iterator[None]:
    """Be about this broker within, about all with an empty name; raises BrokerUnknown. For threads that may wait."""
    if not broker:
        yield
        return
    with choosing(choice_of(broker)):
        try:
            cluster()
        except Http404:
            raise BrokerUnknown(f"The cluster has no broker {broker[:60]}.") from None
        yield


async def rows_of(
    state: ApiState, broker: str, question: Callable[[AsyncAdmin], Awaitable[Sequence[Row]]]
) -> tuple[list[Row], list[str]]:
    """Return the rows of all brokers, or of one, and the names of those that did not answer.

    Raises BrokerUnknown, and ClientError where none answers.
    """
    names = [each.name for each in await state.admin.brokers()]
    if broker and broker not in names:
        raise BrokerUnknown(f"The name server lists no broker {broker[:60]}; it lists: {', '.join(names)}.")
    if len(names) < 2:
        return list(await question(state.admin)), []
    asked = [broker] if broker else names
    answers = await asyncio.gather(*(question(state.admin_of(name)) for name in asked), return_exceptions=True)
    rows: list[Row] = []
    away = []
    for name, answer in zip(asked, answers, strict=True):
        if isinstance(answer, ClientError):
            away.append(name)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            rows += answer
    if len(away) == len(asked):
        raise next(each for each in answers if isinstance(each, ClientError))
    return rows, away
