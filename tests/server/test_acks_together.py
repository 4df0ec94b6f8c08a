"""Acknowledgements that come with one read are taken together: each is answered as if it had come the long way."""

from __future__ import annotations

import random

import pytest

from broker.engine.pop.service import Pops
from broker.rocketmq.codes import ONEWAY_FLAG, Answer, Request
from broker.rocketmq.frame import Command, encode
from broker.server.broker import BrokerService
from tests.server.peer import Peer
from tests.server.popper import GROUP, TOPIC, Got, Popper, got_of
from tests.server.stranger import stranger_at
from tests.watching import Calls

#: longer than anything that goes the short way
PADDING = {"padding": "x" * 1_100}


def said(
    popper: Popper, got: Got, opaque: int, code: int = Request.ACK_MESSAGE, flag: int = 0, **changed: str
) -> bytes:
    return encode(Command(code, popper.of(got, **changed), opaque=opaque, flag=flag))


async def popped(peer: Peer, popper: Popper, count: int) -> list[Got]:
    for number in range(count):
        await peer.send(TOPIC, b"%d" % number)
    found: list[Got] = []
    while len(found) < count:
        found += got_of(await popper.pop())
    return found


async def test_all_of_one_pop_are_one_step(json_peer: Peer, popper: Popper, service: BrokerService) -> None:
    got = await popped(json_peer, popper, 30)
    async with stranger_at(service.address) as socket:
        with Calls(Pops.ack) as calls:
            await socket.say(b"".join(said(popper, each, number) for number, each in enumerate(got)))
            found = await socket.answers(30)
    assert calls.count == 1
    assert {answer.code for answer in found.values()} == {Answer.SUCCESS}
    assert service.engine.pops.table.queues[GROUP, TOPIC, 0].in_flight == 0


async def test_one_that_is_refused_takes_no_other_with_it(
    json_peer: Peer, popper: Popper, service: BrokerService
) -> None:
    got = await popped(json_peer, popper, 12)
    frames = [said(popper, each, number) for number, each in enumerate(got)]
    frames[3] = said(popper, got[3], 3, offset="99")
    frames[5] = said(popper, got[5], 5, topic="nowhere")
    frames[7] = said(popper, got[7], 7, queueId="8")
    frames[9] = said(popper, got[9], 9, extraInfo=got[9].handle.replace(got[9].handle.split(" ")[1], "7"))
    async with stranger_at(service.address) as socket:
        await socket.say(b"".join(frames))
        found = await socket.answers(12)
        assert {number: answer.code for number, answer in found.items() if answer.code} == {
            3: Answer.NO_MESSAGE, 5: Answer.TOPIC_NOT_EXIST, 7: Answer.MESSAGE_ILLEGAL, 9: Answer.NO_MESSAGE,
        }  # fmt: skip
        assert "offset is illegal" in str(found[3].remark) and "queueId[8] is illegal" in str(found[7].remark)
        assert service.engine.pops.table.queues[GROUP, TOPIC, 0].in_flight == 4
        # what was said wrongly can be said again
        await socket.say(b"".join(said(popper, got[number], number) for number in (3, 5, 7, 9)))
        assert {answer.code for answer in (await socket.answers(4)).values()} == {Answer.SUCCESS}
    assert service.engine.pops.table.queues[GROUP, TOPIC, 0].in_flight == 0


async def test_what_comes_in_between_finds_what_was_said_before(
    json_peer: Peer, popper: Popper, service: BrokerService
) -> None:
    """A new time for what was acknowledged before is refused; an acknowledgement by the handle of before, too."""
    got = await popped(json_peer, popper, 4)
    change = {"code": Request.CHANGE_MESSAGE_INVISIBLETIME, "invisibleTime": "60000"}
    async with stranger_at(service.address) as socket:
        await socket.say(
            said(popper, got[0], 0) + said(popper, got[0], 1, **change)  # type: ignore[arg-type]  # code is a number
            + said(popper, got[1], 2, **change) + said(popper, got[1], 3) + said(popper, got[2], 4)  # type: ignore[arg-type]  # as above
        )  # fmt: skip
        found = await socket.answers(5)
    assert [found[number].code for number in range(5)] == [0, Answer.NO_MESSAGE, 0, Answer.NO_MESSAGE, 0]


async def test_the_answer_comes_when_it_is_durable_and_counts(
    json_peer: Peer, popper: Popper, service: BrokerService
) -> None:
    got = await popped(json_peer, popper, 8)
    async with stranger_at(service.address) as socket:
        await socket.say(b"".join(said(popper, each, number) for number, each in enumerate(got)))
        await socket.answers(8)
        # all of it once more: done before, and still so
        await socket.say(b"".join(said(popper, each, number) for number, each in enumerate(got)))
        assert {answer.code for answer in (await socket.answers(8)).values()} == {Answer.SUCCESS}
    assert not service.engine.pops.tell(("nobody", TOPIC, 0), object())
    (times,) = {id(server.times): server.times for server in service.servers}.values()
    counted = {labels["request_code"]: list(histogram.buckets())[-1][1] for labels, histogram in times.rows()}
    assert counted["ack_message"] == 16


def variants(got: list[Got], chance: random.Random) -> list[tuple[dict[str, str], int]]:
    """Acknowledgements of these messages, some of them wrong in some way: changed fields, and the flag of the frame."""
    wrong: list[tuple[dict[str, str], int]] = [
        ({"offset": "x"}, 0), ({"offset": ""}, 0), ({"offset": "-1"}, 0), ({"offset": "9" * 25}, 0),
        ({"queueId": "+0"}, 0), ({"queueId": "\u0660"}, 0), ({"queueId": "00"}, 0), ({"extraInfo": ""}, 0),
        ({"extraInfo": "0 1 2 3"}, 0), ({"extraInfo": "a b c d e f g h"}, 0), ({"consumerGroup": "other"}, 0),
        ({"topic": "n\u00e9"}, 0), ({"offset": str(1 << 17)}, 0), ({}, ONEWAY_FLAG),
    ]  # fmt: skip
    found: list[tuple[dict[str, str], int]] = []
    for each in got:
        named = {"extraInfo": each.handle, "offset": str(each.offset)}
        found.append((named, 0))
        if chance.random() < 0.5:
            changed, flag = chance.choice(wrong)
            found.append((named | changed, flag))
        if chance.random() < 0.2:
            found.append((named, 0))
    chance.shuffle(found)
    return found


@pytest.mark.parametrize("seed", range(6))
async def test_any_mix_is_answered_as_the_long_way_answers_it(
    json_peer: Peer, service: BrokerService, seed: int
) -> None:
    """Two groups pop the same messages; one says all in one write, the other each by itself, in long frames."""
    chance = random.Random(seed)
    short, long = Popper(json_peer), Popper(json_peer)
    for number in range(20):
        await json_peer.send(TOPIC, b"%d" % number)
    mine, theirs = got_of(await short.pop()), got_of(await long.pop(consumerGroup="L"))
    assert [one.offset for one in mine] == [one.offset for one in theirs] and len(mine) == 20
    of_offset = {one.handle: two.handle for one, two in zip(mine, theirs, strict=True)}
    wanted = variants(mine, chance)
    answered = [number for number, (_, flag) in enumerate(wanted) if not flag]
    async with stranger_at(service.address) as socket:
        await socket.say(
            b"".join(said(short, mine[0], n, flag=flag, **fields) for n, (fields, flag) in enumerate(wanted))
        )
        await socket.say(said(short, mine[0], 999, offset="x"))
        together = await socket.answers(len(answered) + 1)  # and nothing else before
        together.pop(999)
        singly: dict[int, Command] = {}
        for number, (fields, flag) in enumerate(wanted):
            own = {"consumerGroup": "L"} | fields
            own["extraInfo"] = of_offset.get(own["extraInfo"], own["extraInfo"])
            await socket.say(said(long, theirs[0], number, flag=flag, **own, **PADDING))
            if not flag:
                singly |= await socket.answers(1)
    assert {n: (one.code, one.ext) for n, one in together.items()} == {
        n: (one.code, one.ext) for n, one in singly.items()
    }
    queues = service.engine.pops.table.queues
    assert queues[GROUP, TOPIC, 0].in_flight == queues["L", TOPIC, 0].in_flight
