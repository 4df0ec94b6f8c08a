"""Pulls with SQL92 filters: what comes, what does not wake anybody, and what a wrong filter is told."""

from __future__ import annotations

import asyncio
import json

import pytest

from broker.engine.queues import reader as queues_reader
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command
from broker.server.broker import BrokerService
from tests.server.peer import Peer, records
from tests.server.test_pulling import waiting

BIG = {"expressionType": "SQL92", "subscription": "size > 10"}
WAITS = {"sysFlag": "6", "suspendTimeoutMillis": "10000"}
SHORTLY = {"sysFlag": "6", "suspendTimeoutMillis": "30"}


def sizes(answer: Command) -> list[str]:
    return [message.properties["size"] for message in records(answer.body)]


async def send(peer: Peer, *values: int) -> None:
    for value in values:
        await peer.send("T", b"body", f"size\x01{value}\x02")


async def heartbeat(peer: Peer, expression: str, version: int = 1) -> Command:
    wanted = {"topic": "T", "subString": expression, "subVersion": version, "expressionType": "SQL92"}
    other = {"topic": "U", "subString": "*", "subVersion": version}
    consumer = {"groupName": "G", "subscriptionDataSet": [wanted, other]}
    body = json.dumps({"clientID": "c1", "consumerDataSet": [consumer]}).encode()
    return await peer.ask(Request.HEART_BEAT, body=body)


async def test_only_what_matches_comes_and_the_rest_is_passed_by(peer: Peer) -> None:
    await send(peer, 5, 11, 7, 12, 13, 3)
    answer = await peer.pull("T", **BIG)
    assert sizes(answer) == ["11", "12", "13"]
    assert answer.ext["nextBeginOffset"] == "6"
    two = await peer.pull("T", maxMsgNums="2", **BIG)
    assert (sizes(two), two.ext["nextBeginOffset"]) == (["11", "12"], "4")
    small = await peer.pull("T", maxMsgBytes="1", **BIG)
    assert (sizes(small), small.ext["nextBeginOffset"]) == (["11"], "3")
    nothing = await peer.pull("T", 5, **BIG)
    assert (nothing.code, nothing.ext["nextBeginOffset"]) == (Answer.PULL_RETRY_IMMEDIATELY, "6")


async def test_the_groups_filter_holds_for_its_pulls(peer: Peer) -> None:
    await send(peer, 5, 11)
    assert (await heartbeat(peer, "size > 10")).code == Answer.SUCCESS
    assert sizes(await peer.pull("T", sysFlag="0")) == ["11"]
    await heartbeat(peer, "size < 10", version=2)
    assert sizes(await peer.pull("T", sysFlag="0")) == ["5"]


async def test_a_filter_that_is_wrong_spoils_nothing_but_its_own_pulls(peer: Peer) -> None:
    await send(peer, 5)
    await peer.send("U")
    assert (await heartbeat(peer, "size >")).code == Answer.SUCCESS
    told = await peer.pull("T", sysFlag="0")
    assert told.code == Answer.SUBSCRIPTION_PARSE_FAILED
    assert "character 7" in (told.remark or "")
    assert (await peer.pull("U", sysFlag="0")).code == Answer.SUCCESS
    own = await peer.pull("T", expressionType="SQL92", subscription="size >")
    assert own.code == Answer.SUBSCRIPTION_PARSE_FAILED
    await heartbeat(peer, "size > 1", version=2)
    assert sizes(await peer.pull("T", sysFlag="0")) == ["5"]


@pytest.mark.parametrize(("expression", "code"), [("size > 1", Answer.SUCCESS), ("size >", 23)])
async def test_a_filter_of_a_heartbeat_is_read_at_its_first_pull_and_once(
    service: BrokerService, peer: Peer, expression: str, code: int
) -> None:
    def read() -> tuple[object, str]:
        group = service._running.clients.consumers("G")
        assert group is not None
        return group.subscriptions["T"].filter, group.subscriptions["T"].flaw

    await send(peer, 5)
    await peer.send("U")
    for _ in range(2):
        await heartbeat(peer, expression)
        await peer.pull("U", sysFlag="0")
        assert read() == (None, ""), "nobody has asked for it"
    assert (await peer.pull("T", sysFlag="0")).code == code
    first = read()
    assert first != (None, "")
    await heartbeat(peer, expression)
    again = await peer.pull("T", sysFlag="0")
    assert again.code == code
    assert [one is another for one, another in zip(read(), first, strict=True)] == [True, True]


async def test_a_pull_is_woken_by_what_matches_only(service: BrokerService, peer: Peer) -> None:
    await send(peer, 1)
    pull = asyncio.ensure_future(peer.pull("T", 1, **BIG, **WAITS))
    await waiting(service, 1)
    await send(peer, 2, 3)
    assert service.waiting_pulls == 1
    assert not pull.done()
    await send(peer, 11)
    assert sizes(await pull) == ["11"]


async def test_a_pull_that_waited_for_nothing_goes_on_behind_what_it_has_seen(peer: Peer) -> None:
    await send(peer, 1)
    pull = asyncio.ensure_future(peer.pull("T", 1, **BIG, **SHORTLY))
    await send(peer, 2, 3)
    answer = await pull
    assert answer.code in {Answer.PULL_NOT_FOUND, Answer.PULL_RETRY_IMMEDIATELY}
    assert int(answer.ext["nextBeginOffset"]) >= 1
    assert answer.body == b""


async def test_one_pull_looks_at_so_many_and_says_where_to_go_on(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues_reader, "_AT_ONCE", 2)
    monkeypatch.setattr(queues_reader, "_MOST_LOOKED_AT", 4)
    await send(peer, 1, 2, 3, 4, 5, 11)
    first = await peer.pull("T", **BIG)
    assert (first.code, first.ext["nextBeginOffset"]) == (Answer.PULL_RETRY_IMMEDIATELY, "4")
    assert sizes(await peer.pull("T", 4, **BIG)) == ["11"]


@pytest.mark.parametrize(("offset", "code"), [(0, 20), (3, 19), (4, 21), (-1, 21)])
async def test_offsets_outside_are_answered_as_without_a_filter(peer: Peer, offset: int, code: int) -> None:
    await send(peer, 1, 2, 3)
    answer = await peer.pull("T", offset, **BIG)
    assert answer.code == code
    assert answer.ext["nextBeginOffset"] == ("0" if offset < 0 else "3")


async def test_an_empty_queue_has_nothing_to_filter(peer: Peer) -> None:
    await peer.create_topic("T")
    assert (await peer.pull("T", **BIG)).code == Answer.PULL_NOT_FOUND
