"""The worker that answers check-backs: for each group with an address, a producer that asks that address.

`Worker` keeps one `Answerer` for each address and writes down how each does. An answerer knows nothing itself: what
brokers ask it, it asks the address. Whatever is no proper answer is told to the broker as "unknown", which changes
nothing. An address that failed some times in a row is left alone for a while, and its producer signs off meanwhile, so
that Escapement uses up no checks.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import random
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from django.conf import settings
from django.db import DatabaseError, connection

from broker.client import AsyncTransactionProducer, Decision, Message
from broker.rocketmq.properties import CHECK_TIMES
from console.features.checkback.allowed import Address, AddressRefused, read_address
from console.features.checkback.models import CheckAddress
from console.features.checkback.registry import allow_list, http_limits, secret_of
from console.features.checkback.request import (
    NONCE_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    Asker,
    NoAnswer,
    Resolver,
    sign_answer,
    sign_question,
)
from console.site.parsing import whole_number

logger = logging.getLogger(__name__)

#: How often the addresses are read.
LOOK_S = 1.0
#: the same while there is none: what is registered then is answered for so much later
IDLE_LOOK_S = 5.0
#: Without a word from the database for so long, nobody is asked: an address may have been taken back.
BLIND_S = 30.0

#: Questions under way for one group.
IN_FLIGHT = 20
#: Failures in a row after which an address is left alone.
PATIENCE = 5
#: For how long, doubled each time; the true pause is up to a quarter longer, so that not all begin again at once.
REST_S, LONGEST_REST_S = 30.0, 300.0
SECRET_KEY_CHANGED = "SECRET_KEY has changed since its secret was created: create a new secret"  # noqa: S105 - words
_DECISIONS = {"COMMIT": Decision.COMMIT, "ROLLBACK": Decision.ROLLBACK, "UNKNOWN": Decision.UNKNOWN}

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Contact:
    """A group, where it is asked, and the secret shared with that address."""

    group: str
    address: Address
    secret: str


@dataclass(slots=True)
class Standing:
    """The record of an address's answers so far; moments are epoch seconds."""

    asked_s: float | None = None
    #: the last decision, or why there was none
    outcome: str = ""
    failures: int = 0
    resting_until_s: float | None = None


@dataclass(slots=True)
class _Kept:
    contact: Contact
    answerer: Answerer
    task: asyncio.Task[None]
    saved: Standing


class Worker:
    """A worker for all addresses; `run` it until it is cancelled. Belongs to one event loop."""

    def __init__(self, namesrv: str, *, make: Callable[[Contact], Answerer] | None = None) -> None:
        """Raises AddressRefused where the settings cannot be read. `make`: how an Answerer is made, for tests."""
        self._namesrv = namesrv
        self._allowed, self._limits = allow_list(), http_limits()
        self._make = make or self._answerer
        self._kept: dict[str, _Kept] = {}
        self._database = ThreadPoolExecutor(1, thread_name_prefix="check-addresses")

    async def run(self, on_change: Callable[[Sequence[str]], None] = lambda groups: None) -> None:
        """Read the addresses again and again; `on_change` gets the groups that are answered for."""
        seen_s = time.monotonic()
        try:
            while True:
                try:
                    contacts = await self._in_thread(self._load)
                    seen_s = time.monotonic()
                    if await self.keep(contacts):
                        on_change(sorted(self._kept))
                    if self._kept:
                        await self._in_thread(self._save)
                except DatabaseError as error:
                    logger.warning("check-back addresses cannot be read: %s", error)
                    if time.monotonic() - seen_s > BLIND_S and await self.keep([]):
                        on_change([])
                await asyncio.sleep(LOOK_S if self._kept else max(LOOK_S, IDLE_LOOK_S))
        finally:
            await self.keep([])
            self._database.submit(_close)
            self._database.shutdown(wait=True)

    async def keep(self, contacts: Sequence[Contact]) -> bool:
        """Answer for these contacts and no others. Returns whether that is a change."""
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
        """Read the addresses to ask; why one cannot be asked is written into its row."""
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
                asked_at=_moment(now.asked_s),
                outcome=now.outcome[:200],
                failures=now.failures,
                resting_until=_moment(now.resting_until_s),
            )
            kept.saved = now

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._database, _with_database, work)


class Answerer:
    """An asker of one address for one group; `run` it until it is cancelled. Belongs to one event loop."""

    def __init__(
        self,
        contact: Contact,
        namesrv: str,
        asker: Asker,
        *,
        rest_s: float = REST_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.contact = contact
        self.standing = Standing()
        self._namesrv = namesrv
        self._asker = asker
        self._rest_s = self._first_rest_s = rest_s
        self._clock = clock
        self._asking: set[str] = set()
        self._is_tired = asyncio.Event()
        self._is_probing = False

    async def run(self) -> None:
        """Act as a producer of the group, with pauses while its address does not answer."""
        while True:
            self._is_tired.clear()
            producer = AsyncTransactionProducer(
                self.contact.group, self._namesrv, check=self.check, check_workers=IN_FLIGHT
            )
            async with producer:
                await self._is_tired.wait()
            pause_s = self._rest_s * random.uniform(1, 1.25)  # noqa: S311 - spreads load, protects nothing
            self._rest_s = min(2 * self._rest_s, LONGEST_REST_S)
            self.standing.resting_until_s = self._clock() + pause_s
            logger.warning(
                "the address of group %s is left alone for %.0f s: %s",
                self.contact.group,
                pause_s,
                self.standing.outcome,
            )
            await asyncio.sleep(pause_s)
            self.standing.resting_until_s = None
            self._is_probing = True

    async def check(self, message: Message) -> Decision:
        """Return what the address answers; UNKNOWN for anything but a proper answer. Never raises."""
        transaction_id = message.unique_key
        # one question a transaction at a time; of one that failed lately, one question at all
        if not transaction_id or transaction_id in self._asking or self._is_tired.is_set():
            return Decision.UNKNOWN
        if self._is_probing and self._asking:
            return Decision.UNKNOWN
        self._asking.add(transaction_id)
        try:
            decision = await self._ask(message, transaction_id)
        except NoAnswer as error:
            self._failed(error.reason, transaction_id)
            return Decision.UNKNOWN
        finally:
            self._asking.discard(transaction_id)
        self.standing.outcome, self.standing.failures = decision.name, 0
        self._is_probing, self._rest_s = False, self._first_rest_s
        return decision

    async def _ask(self, message: Message, transaction_id: str) -> Decision:
        self.standing.asked_s = self._clock()
        body = question(self.contact.group, transaction_id, message)
        nonce, timestamp = secrets.token_urlsafe(24), str(int(self._clock()))
        headers = {
            TIMESTAMP_HEADER: timestamp,
            NONCE_HEADER: nonce,
            SIGNATURE_HEADER: sign_question(self.contact.secret, timestamp, nonce, body),
        }
        answer = await self._asker.ask(self.contact.address, headers, body)
        signed = answer.headers.get(SIGNATURE_HEADER.lower(), "")
        right = sign_answer(self.contact.secret, nonce, answer.body)
        if not hmac.compare_digest(signed.encode(), right.encode()):
            raise NoAnswer("the answer's signature is missing or wrong")
        return read_decision(answer.body)

    def _failed(self, reason: str, transaction_id: str) -> None:
        logger.info("group %s, transaction %s: %s", self.contact.group, transaction_id, reason)
        self.standing.outcome = reason
        self.standing.failures += 1
        if self._is_probing or self.standing.failures >= PATIENCE:
            self._is_tired.set()


def question(group: str, transaction_id: str, message: Message) -> bytes:
    """Return the body of a question: all names of the message that it is about."""
    asked = {
        "transaction_id": transaction_id,
        "producer_group": group,
        "topic": message.topic,
        "keys": list(message.keys),
        "tag": message.tags or None,
        "born_ms": message.born_ms,
        "check": whole_number(message.properties.get(CHECK_TIMES), high=99_999),
    }
    return json.dumps(asked, separators=(",", ":")).encode()


def read_decision(body: bytes) -> Decision:
    """Return the decision in ``{"decision": "COMMIT"}``. Raises NoAnswer for anything else."""
    try:
        found = json.loads(body.decode(), object_pairs_hook=_each_name_once)
    except (ValueError, RecursionError):
        raise NoAnswer("the answer is not JSON") from None
    word = found.get("decision") if isinstance(found, dict) and len(found) == 1 else None
    if not isinstance(word, str) or word not in _DECISIONS:
        raise NoAnswer('the answer is not {"decision": "COMMIT"}, "ROLLBACK" or "UNKNOWN"')
    return _DECISIONS[word]


def _each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a name comes twice")
    return dict(pairs)


def _with_database(work: Callable[[], Result]) -> Result:
    try:
        return work()
    except DatabaseError:
        connection.close()  # the next look takes a new one
        raise


def _close() -> None:
    """Close the database connection of this thread."""
    connection.close()


def _moment(epoch_s: float | None) -> datetime | None:
    return None if epoch_s is None else datetime.fromtimestamp(epoch_s, UTC)
