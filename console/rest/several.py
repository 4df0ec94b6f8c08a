"""Questions of REST to several brokers: to one that a request names, or to all beside each other.

With one broker nothing differs from a question to it. Of several, who does not answer, or cannot tell, takes no answer
with it: what is told is that of the others, with its name in `brokers_missing`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from django.http import Http404
from msgspec import Meta

from broker.client import AsyncAdmin, ClientError
from console.rest.errors import BrokerUnknown, InvalidParameter
from console.rest.state import ApiState
from console.site.broker import at
from console.site.merged import Places, read_cursor
from console.site.mirrored import cluster

Answer = TypeVar("Answer")

OnlyOf = Annotated[str, Meta(min_length=1, max_length=255, description="Only of this broker; without it, of all.")]
Missing = Annotated[
    list[str], Meta(description="Brokers that did not answer, or cannot tell: what they have is not in this answer.")
]


@dataclass(frozen=True, slots=True)
class Page(Generic[Answer]):
    """A page of the list of one broker, or of several: rows with their broker, where it goes on, who did not answer."""

    now_ms: int
    rows: Sequence[tuple[str, Answer]]
    cursor: str | None
    missing: list[str]


#: of what is done at one broker
AtBroker = Annotated[
    str, Meta(min_length=1, max_length=255, description="The broker for it; needed where there are several.")
]

#: of what is chosen one by one, or by a filter, at several brokers
ItsBroker = Annotated[
    str, Meta(min_length=1, max_length=255, description="Its broker; for all selected ones, or for none.")
]
AmongBrokers = Annotated[
    list[str], Meta(min_length=1, max_length=100, description="The brokers that a filter searches; instead of broker.")
]


@contextmanager
def of_broker(broker: str) -> Iterator[None]:
    """Be about this broker within, about all with an empty name; raises BrokerUnknown. For threads that may wait."""
    if not broker:
        yield
        return
    with at(broker):
        try:
            cluster()
        except Http404:
            raise BrokerUnknown(f"The cluster has no broker {broker[:60]}.") from None
        yield


async def asked(state: ApiState, wanted: str | None) -> Mapping[str, AsyncAdmin]:
    """Return whom a request asks, by the broker's name; raises BrokerUnknown for one that is not there."""
    names = [each.name for each in await state.admin.brokers()]
    if wanted and wanted not in names:
        raise BrokerUnknown(f"The name server lists no broker {wanted[:60]}; it lists: {', '.join(names)}.")
    if len(names) < 2:
        return {"".join(names): state.admin}
    return {name: state.admin_of(name) for name in names if not wanted or wanted == name}


async def at_broker(state: ApiState, broker: str) -> AsyncAdmin:
    """Return whom to ask about what lies at a broker; raises BrokerRefused for one that is not listed."""
    names = {each.name for each in await state.admin.members()}
    if broker not in names:
        await state.admin.address_of(broker)
    return state.admin if len(names) < 2 else state.admin_of(broker)


async def tell_each(
    admins: Mapping[str, AsyncAdmin], question: Callable[[str, AsyncAdmin], Awaitable[Answer]]
) -> tuple[dict[str, Answer], list[str]]:
    """Return the answers by broker, and who gave none; raises ClientError where nobody gave one."""

    async def told(name: str, admin: AsyncAdmin) -> Answer | ClientError:
        try:
            return await question(name, admin)
        except ClientError as error:
            return error

    if len(admins) == 1:
        return {name: await question(name, admin) for name, admin in admins.items()}, []
    found = dict(zip(admins, await asyncio.gather(*(told(*each) for each in admins.items())), strict=True))
    errors = {name: error for name, error in found.items() if isinstance(error, ClientError)}
    if len(errors) == len(found):
        raise next(iter(errors.values()))
    return {name: answer for name, answer in found.items() if not isinstance(answer, ClientError)}, list(errors)


async def rows_of(
    state: ApiState, wanted: str | None, question: Callable[[AsyncAdmin], Awaitable[Sequence[Answer]]]
) -> tuple[list[Answer], list[str]]:
    """Return the rows of all brokers, or of one, and who did not answer; raises as `asked` and `tell_each` do."""
    found, missing = await tell_each(await asked(state, wanted), lambda _name, admin: question(admin))
    return [row for rows in found.values() for row in rows], missing


async def first_found(
    admins: Mapping[str, AsyncAdmin],
    question: Callable[[str, AsyncAdmin], Awaitable[Answer]],
    is_unknown: Callable[[ClientError], bool],
) -> tuple[str, Answer]:
    """Return the broker that has something, and its answer.

    Raises what a broker raised who does not know whether it is there, else that it is nowhere.
    """
    errors: list[ClientError] = []
    for name, admin in admins.items():
        try:
            return name, await question(name, admin)
        except ClientError as error:
            errors.append(error)
    raise next((error for error in errors if not is_unknown(error)), errors[0])


def places_of(cursor: str | None) -> Places:
    """Return where each broker's list goes on; raises InvalidParameter for a text that is no cursor."""
    places = read_cursor(cursor)
    if places is None:
        raise InvalidParameter(f"The cursor {(cursor or '')[:40]!r} is none of this list's; begin without one.")
    return places


async def spanned(
    state: ApiState, named: Sequence[str], own: Sequence[str | None], among: Sequence[str] | None, wanted: str | None
) -> str:
    """Return the broker that an operation is of, as `named_of`; "" where it is said of each (`own`), or of the filter
    (`among`), at which broker it is. Raises InvalidParameter where both are said, too."""
    if among is None and not any(own):
        return await named_of(state, named, wanted)
    if wanted is not None:
        raise InvalidParameter("Give broker, or say of each (of a filter: brokers) where it is; not both.")
    return ""


async def named_of(state: ApiState, named: Sequence[str], wanted: str | None) -> str:
    """Return the broker that an operation is of: the one that is wanted, or that all ids name; "": there is one only.

    Raises InvalidParameter where they are of several, BrokerUnknown of one that is not there.
    """
    several = {*named, *([] if wanted is None else [wanted])}
    if len(several) > 1:
        raise InvalidParameter(f"An operation is of one broker, and these are of {', '.join(sorted(several))[:200]}.")
    name = next(iter(several), None)
    await asked(state, name)
    return name or "" if len(await state.admin.brokers()) > 1 else ""
