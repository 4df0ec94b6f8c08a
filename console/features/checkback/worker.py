"""Keeps one Answerer for each address that is registered and asked, and writes down how each does."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar

from django.conf import settings
from django.db import DatabaseError, connection

from console.features.checkback.allowed import AddressRefused, read_address
from console.features.checkback.models import CheckAddress
from console.features.checkback.producer import Answerer, Contact, Standing
from console.features.checkback.registry import allow_list, http_limits, secret_of
from console.features.checkback.request import Asker
from console.features.checkback.resolver import Resolver

logger = logging.getLogger(__name__)

#: How often the addresses are read.
LOOK_S = 1.0
#: Without a word from the database for so long, nobody is asked: an address may have been taken back.
BLIND_S = 30.0
SECRET_KEY_CHANGED = "SECRET_KEY is another one than when its secret was made: make a new secret"  # noqa: S105 - words

Result = TypeVar("Result")


@dataclass(slots=True)
class _Kept:
    contact: Contact
    answerer: Answerer
    task: asyncio.Task[None]
    saved: Standing


class Worker:
    """`run` until it is cancelled; belongs to one event loop."""

    def __init__(self, namesrv: str, *, make: Callable[[Contact], Answerer] | None = None) -> None:
        """Raises AddressRefused where the settings cannot be read. `make`: how an Answerer is made, for tests."""
        self._namesrv = namesrv
        self._allowed, self._limits = allow_list(), http_limits()
        self._make = make or self._answerer
        self._kept: dict[str, _Kept] = {}
        self._database = ThreadPoolExecutor(1, thread_name_prefix="check-addresses")

    async def run(self, on_change: Callable[[Sequence[str]], None] = lambda groups: None) -> None:
        """Look again and again; `on_change` is told the groups that are answered for."""
        seen_s = time.monotonic()
        try:
            while True:
                try:
                    contacts = await self._in_thread(self._load)
                    seen_s = time.monotonic()
                    if await self.keep(contacts):
                        on_change(sorted(self._kept))
                    await self._in_thread(self._save)
                except DatabaseError as error:
                    logger.warning("check-back addresses cannot be read: %s", error)
                    if time.monotonic() - seen_s > BLIND_S and await self.keep([]):
                        on_change([])
                await asyncio.sleep(LOOK_S)
        finally:
            await self.keep([])
            self._database.submit(_close)
            self._database.shutdown(wait=True)

    async def keep(self, contacts: Sequence[Contact]) -> bool:
        """Answer for these and no others; True if that is a change."""
        wanted = {contact.group: contact for contact in contacts}
        gone = [group for group, kept in self._kept.items() if wanted.get(group) != kept.contact or kept.task.done()]
        ended = [self._kept.pop(group) for group in gone]
        for kept in ended:
            kept.task.cancel()
        for kept, outcome in zip(
            ended, await asyncio.gather(*(kept.task for kept in ended), return_exceptions=True), strict=True
        ):
            if isinstance(outcome, Exception):
                logger.error("answering for group %s failed, begun anew: %r", kept.contact.group, outcome)
        new = [contact for group, contact in wanted.items() if group not in self._kept]
        for contact in new:
            answerer = self._make(contact)
            task = asyncio.get_running_loop().create_task(answerer.run())
            self._kept[contact.group] = _Kept(contact, answerer, task, Standing())
        return bool(new or gone)

    def _answerer(self, contact: Contact) -> Answerer:
        # a resolver for each: a name that is looked up for long holds up its own address only
        return Answerer(contact, self._namesrv, Asker(self._allowed, Resolver(), self._limits))

    def _load(self) -> list[Contact]:
        """The addresses to ask; what stands against asking one is written beside it."""
        found = []
        groups = set(settings.ESCAPEMENT_PRODUCER_GROUPS)
        for row in CheckAddress.objects.filter(is_enabled=True).exclude(group__in=groups):
            secret = secret_of(row)
            try:
                address = read_address(row.url)
                self._allowed.check_origin(address)
                if secret is None:
                    raise AddressRefused(SECRET_KEY_CHANGED)
            except AddressRefused as error:
                if row.outcome != str(error)[:200]:
                    CheckAddress.objects.filter(pk=row.pk).update(outcome=str(error)[:200])
                continue
            found.append(Contact(row.group, address, secret))
        return found

    def _save(self) -> None:
        for group, kept in list(self._kept.items()):
            now = replace(kept.answerer.standing)
            if now == kept.saved:
                continue
            CheckAddress.objects.filter(group=group).update(
                asked_at=_moment(now.asked_s), outcome=now.outcome[:200], failures=now.failures,
                resting_until=_moment(now.resting_until_s),
            )  # fmt: skip
            kept.saved = now

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._database, _with_database, work)


def _with_database(work: Callable[[], Result]) -> Result:
    try:
        return work()
    except DatabaseError:
        connection.close()  # the next look takes a new one
        raise


def _close() -> None:
    """The connection of the thread that this runs in."""
    connection.close()


def _moment(epoch_s: float | None) -> datetime | None:
    return None if epoch_s is None else datetime.fromtimestamp(epoch_s, UTC)
