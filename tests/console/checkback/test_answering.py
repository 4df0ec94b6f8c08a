"""A broker asks, the address answers: what is done with every kind of answer, on a real broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from broker.client import AsyncAdmin, AsyncProducer, Decision, as_half, prepare
from broker.client.transactions import TransactionTarget
from broker.server.broker import BrokerService
from console.features.checkback.allowed import AllowList, read_address
from console.features.checkback.request import Asker, HttpLimits, NoAnswer, Resolver, sign_question
from console.features.checkback.worker import IN_FLIGHT, PATIENCE, Answerer, Contact, Standing, question, read_decision
from tests.console.checkback.answers import EMPTY, SECRET, agree, forged, message
from tests.console.checkback.server import Question, Server, always, decided, http
from tests.waiting import until_true
from tests.watching import Calls


async def send(rest: AsyncProducer, *bodies: str, group: str = "shop") -> list[str]:
    """Halves of a group; their transaction ids."""
    halves = [as_half(prepare(body, keys=[body], tag="paid"), group) for body in bodies]
    for sent in await rest.send_each("orders", halves):
        assert not isinstance(sent, Exception), sent
    return [half.message_id for half in halves]


def answerer_of(group: str, server: Server, namesrv: str, rest_s: float = 30) -> Answerer:
    """One that may ask that server."""
    origin = f"http://{server.host}:{server.port}"
    asker = Asker(AllowList([origin], [f"{server.host}/32"]), Resolver(), HttpLimits(timeout_s=1))
    return Answerer(Contact(group, read_address(origin + "/checks"), SECRET), namesrv, asker, rest_s=rest_s)


@asynccontextmanager
async def answering(
    service: BrokerService, *servers: Server, groups: Sequence[str] = ("shop",), rest_s: float = 30
) -> AsyncIterator[list[Answerer]]:
    """Answerers of the groups, each at its server."""
    made = [
        answerer_of(group, each, service.namesrv_address, rest_s) for group, each in zip(groups, servers, strict=True)
    ]
    running = [asyncio.create_task(each.run()) for each in made]
    yield made
    for task in running:
        task.cancel()
    assert all(
        isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*running, return_exceptions=True)
    )


async def states(admin: AsyncAdmin) -> list[str]:
    found = [each.state for state in ("open", "parked") for each in (await admin.transactions(state)).items]
    return found + [each.state for each in (await admin.transactions("decided")).items]


@pytest.mark.parametrize(("decision", "state"), [("COMMIT", "committed"), ("ROLLBACK", "rolled back")])
async def test_a_signed_answer_decides(
    service: BrokerService, admin: AsyncAdmin, rest: AsyncProducer, server: Server, decision: str, state: str
) -> None:
    server.speak = agree(decision)
    (transaction_id,) = await send(rest, "4711")
    async with answering(service, server) as (answerer,):

        async def is_decided() -> bool:
            return await states(admin) == [state]

        await until_true(is_decided)
        assert (answerer.standing.outcome, answerer.standing.failures) == (decision, 0)
    (asked,) = server.questions
    assert asked.line == "POST /checks HTTP/1.1"
    assert {name: asked.asked[name] for name in ("transaction_id", "producer_group", "topic", "keys", "tag")} == {
        "transaction_id": transaction_id, "producer_group": "shop", "topic": "orders", "keys": ["4711"], "tag": "paid",
    }  # fmt: skip
    stamp, nonce = asked.headers["escapement-timestamp"], asked.headers["escapement-nonce"]
    assert asked.headers["escapement-signature"] == sign_question(SECRET, stamp, nonce, asked.body)
    (row,) = (await admin.transactions("decided")).items
    assert row.by.startswith("check ")


@pytest.mark.parametrize("name", sorted(forged(EMPTY)))
async def test_what_is_no_proper_answer_is_unknown(server: Server, name: str) -> None:
    async def speak(asked: Question) -> bytes:
        return forged(asked)[name]

    server.speak = speak
    answerer = answerer_of("shop", server, "127.0.0.1:1")
    assert await answerer.check(message(UNIQ_KEY="T")) is Decision.UNKNOWN
    assert (len(server.questions), answerer.standing.failures) == (1, 1)
    assert answerer.standing.outcome not in ("", "COMMIT", "ROLLBACK", "UNKNOWN")
    server.speak = agree("COMMIT")
    assert await answerer.check(message(UNIQ_KEY="T")) is Decision.COMMIT


async def test_an_answer_that_is_not_believed_changes_nothing(
    service: BrokerService, admin: AsyncAdmin, rest: AsyncProducer, server: Server
) -> None:
    server.speak = always(http(b'{"decision": "COMMIT"}'))
    await send(rest, "4711")
    async with answering(service, server) as (answerer,):

        async def is_asked() -> bool:
            return answerer.standing.failures > 0

        await until_true(is_asked)
        assert answerer.standing.outcome not in ("", "COMMIT", "ROLLBACK")
        assert [state in ("open", "due") for state in await states(admin)] == [True]
        # the next answer counts
        server.speak = agree("ROLLBACK")

        async def is_decided() -> bool:
            return await states(admin) == ["rolled back"]

        await until_true(is_decided)
        assert answerer.standing.failures == 0


async def test_a_slow_address_holds_up_no_other(
    service: BrokerService, admin: AsyncAdmin, rest: AsyncProducer, server: Server
) -> None:
    over, waiting = asyncio.Event(), 0

    async def slow(asked: Question) -> bytes:
        nonlocal waiting
        waiting += 1
        await over.wait()
        return b""

    async with Server(slow) as other:
        await send(rest, *[f"slow-{number}" for number in range(2 * IN_FLIGHT)], group="slow")
        async with answering(service, other, server, groups=("slow", "shop")):

            async def is_full() -> bool:
                return waiting == IN_FLIGHT

            await until_true(is_full)
            (quick,) = await send(rest, "quick")

            async def is_decided() -> bool:
                return (await admin.transaction(quick)).state == "committed"

            await until_true(is_decided, 5)
            assert waiting >= IN_FLIGHT
            over.set()


class Rests(Standing):
    """Keeps each rest that was begun."""

    def __init__(self) -> None:
        self.rests: list[float] = []
        super().__init__()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "resting_until_s" and value is not None:
            self.rests.append(value)


async def test_a_dead_address_uses_up_no_checks(
    service: BrokerService, admin: AsyncAdmin, rest: AsyncProducer, server: Server
) -> None:
    """It fails, is left alone, and its group has no producer meanwhile; then it is tried once, and comes back."""
    server.speak = always(b"")
    ids = await send(rest, *[f"{number}" for number in range(PATIENCE)])
    async with answering(service, server, rest_s=1.0) as (answerer,):
        answerer.standing = standing = Rests()

        async def has_failed_again(known: int = 0) -> bool:
            return len(standing.rests) > known

        await until_true(has_failed_again)
        (group,) = (await admin.transaction_status()).groups
        assert (group.group, group.open, group.producers) == ("shop", PATIENCE, 0)
        known = len(standing.rests)
        before = [(await admin.transaction(each)).checks for each in ids]
        await until_true(partial(has_failed_again, known))
        after = [(await admin.transaction(each)).checks for each in ids]
        # one failure is enough for the next rest; one may be under way
        tries = len(standing.rests) - known + (standing.resting_until_s is None)
        both = zip(before, after, strict=True)
        assert all(late - early <= tries for early, late in both if None not in (early, late))
        server.speak = agree("COMMIT")

        async def are_committed() -> bool:
            return await states(admin) == ["committed"] * PATIENCE

        await until_true(are_committed, 20)
    assert (await admin.transaction_status()).parked == 0


async def test_one_question_a_transaction_at_a_time(
    service: BrokerService, admin: AsyncAdmin, rest: AsyncProducer, server: Server
) -> None:
    over = asyncio.Event()
    asked_about: list[str] = []

    async def slow(asked: Question) -> bytes:
        asked_about.append(asked.asked["transaction_id"])
        await over.wait()
        return decided(asked, SECRET, "COMMIT")

    async def check_all() -> None:
        rows = (await admin.transactions("open")).items
        targets = [TransactionTarget(row.offset, row.position) for row in rows if row.position is not None]
        await admin.steer_transactions("check", targets, who="test")

    server.speak = slow
    (first,) = await send(rest, "4711")
    with Calls(Answerer.check) as checks:
        async with answering(service, server):

            async def is_checked_often() -> bool:
                await check_all()
                return checks.count >= 4

            await until_true(is_checked_often)
            (second,) = await send(rest, "4712")

            async def is_second_asked_about() -> bool:
                await check_all()
                return second in asked_about

            # what was asked before that has arrived before it
            await until_true(is_second_asked_about)
            assert asked_about == [first, second]
            over.set()

            async def is_decided() -> bool:
                return await states(admin) == ["committed"] * 2

            await until_true(is_decided)


@pytest.mark.parametrize(("times", "check"), [("3", 3), ("", None), ("x", None), ("9" * 50, None)])
def test_a_question_says_how_often_it_was_put(times: str, check: int | None) -> None:
    found = json.loads(question("shop", "T", message(TRANSACTION_CHECK_TIMES=times, KEYS="a b", TAGS="")))
    assert found == {
        "transaction_id": "T", "producer_group": "shop", "topic": "orders", "keys": ["a", "b"], "tag": None,
        "born_ms": 5, "check": check,
    }  # fmt: skip


def test_three_words_are_decisions() -> None:
    for word in ("COMMIT", "ROLLBACK", "UNKNOWN"):
        assert read_decision(json.dumps({"decision": word}).encode()) is Decision[word]
    with pytest.raises(NoAnswer):
        read_decision(b'{"decision": "MAYBE"}')
