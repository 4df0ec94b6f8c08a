"""Popping over the wire: fields as the official broker gives them, waiting, handles, refusals."""

from __future__ import annotations

from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command
from tests.server.frames import recorded_exchanges
from tests.server.peer import Peer
from tests.server.popper import GROUP, TOPIC, Popper, bodies, changed, got_of

RETRY = f"%RETRY%{GROUP}_{TOPIC}"


def recorded(code: int, answer_code: int) -> Command:
    """What the real broker answered."""
    for _, answer in recorded_exchanges(code, "JSON"):
        if answer.header["code"] == answer_code:
            header = answer.header
            return Command(header["code"], header.get("extFields") or {}, remark=header.get("remark"))
    raise AssertionError(f"{code} was never answered with {answer_code}")


async def test_a_pop_is_answered_as_by_the_real_broker(json_peer: Peer, popper: Popper) -> None:
    real = recorded(Request.POP_MESSAGE, Answer.SUCCESS)
    await json_peer.send(TOPIC, b"first")
    answer = await popper.pop()
    assert (answer.code, answer.remark) == (Answer.SUCCESS, real.remark)
    assert set(answer.ext) == set(real.ext)
    same = ("startOffsetInfo", "msgOffsetInfo", "restNum", "reviveQid")
    assert {name: answer.ext[name] for name in same} == {name: real.ext[name] for name in same}
    assert answer.ext["invisibleTime"] == "30000"
    assert bodies(answer) == [b"first"]


async def test_nothing_is_answered_as_by_the_real_broker(popper: Popper) -> None:
    real = recorded(Request.POP_MESSAGE, Answer.POLLING_TIMEOUT)
    for poll_ms in ("0", "20"):
        answer = await popper.pop(pollTime=poll_ms)
        assert (answer.code, answer.remark) == (real.code, real.remark)
        assert set(answer.ext) == set(real.ext)
        assert (answer.ext["startOffsetInfo"], answer.ext["msgOffsetInfo"]) == ("", "")


async def test_offsets_of_several_queues(json_peer: Peer, popper: Popper) -> None:
    await json_peer.create_topic(TOPIC, 3)
    for queue in ("0", "2", "2"):
        await json_peer.send(TOPIC, queue.encode(), e=queue)
    answer = await popper.pop()
    assert sorted(answer.ext["msgOffsetInfo"].split(";")) == ["0 0 0", "0 2 0,1"]
    assert sorted(answer.ext["startOffsetInfo"].split(";")) == ["0 0 0", "0 2 0"]


async def test_what_is_acknowledged_is_done(json_peer: Peer, popper: Popper) -> None:
    await json_peer.send(TOPIC, b"one")
    (got,) = got_of(await popper.pop(invisibleTime="60"))
    answer = await popper.ack(got)
    assert (answer.code, answer.ext) == (Answer.SUCCESS, {})
    assert (await popper.pop(pollTime="150")).code == Answer.POLLING_TIMEOUT


async def test_what_is_not_acknowledged_comes_again_as_of_its_topic(json_peer: Peer, popper: Popper) -> None:
    await json_peer.send(TOPIC, b"pay", "UNIQ_KEY\x01A1\x02KEYS\x01k\x02")
    await popper.pop(invisibleTime="40")
    answer = await popper.pop(pollTime="9000")
    (again,) = got_of(answer)
    message = again.message
    assert (message.topic, message.body, message.reconsume_times) == (TOPIC, b"pay", 1)
    assert message.properties["UNIQ_KEY"] == "A1"
    assert "ESC_POPPED" not in message.properties
    assert answer.ext["msgOffsetInfo"] == "1 0 0"
    assert message.properties["POP_CK"] == f"0 {answer.ext['popTime']} 30000 0 1 broker-a 0 0"
    assert again.topic == RETRY
    assert (await popper.ack(again)).code == Answer.SUCCESS


async def test_an_acknowledgement_that_comes_too_late_is_refused(json_peer: Peer, popper: Popper) -> None:
    await json_peer.send(TOPIC, b"pay")
    (got,) = got_of(await popper.pop(invisibleTime="30"))
    assert bodies(await popper.pop(pollTime="9000")) == [b"pay"]
    answer = await popper.ack(got)
    assert answer.code == Answer.NO_MESSAGE
    assert "redelivered" in (answer.remark or "")


async def test_many_are_acknowledged_together(json_peer: Peer, popper: Popper) -> None:
    for number in range(12):
        await json_peer.send(TOPIC, b"%d" % number)
    got = got_of(await popper.pop(maxMsgNums="10", invisibleTime="300"))
    answer = await popper.ack_together(*got[:4], got[9])
    assert (answer.code, answer.ext) == (Answer.SUCCESS, {})
    again = await popper.ack_together(got[4], pt=1)
    assert (again.code, again.ext) == (Answer.NO_MESSAGE, {"escRefused": f"{TOPIC} 0 4"})
    mixed = await popper.ack_together(got[5], got_of(await popper.pop(maxMsgNums="1"))[0])
    assert mixed.code == Answer.SUCCESS
    found: set[bytes] = set()
    while len(found) < 5:
        found.update(bodies(await popper.pop(pollTime="9000")))
    assert found == {b"4", b"6", b"7", b"8", b"11"}


async def test_a_time_is_changed_as_by_the_real_broker(json_peer: Peer, popper: Popper) -> None:
    real = recorded(Request.CHANGE_MESSAGE_INVISIBLETIME, Answer.SUCCESS)
    await json_peer.send(TOPIC, b"pay")
    (got,) = got_of(await popper.pop(invisibleTime="80"))
    answer = await popper.change(got, 30_000)
    assert (answer.code, set(answer.ext)) == (Answer.SUCCESS, set(real.ext))
    assert (answer.ext["invisibleTime"], answer.ext["reviveQid"]) == ("30000", "0")
    assert int(answer.ext["popTime"]) > int(got.handle.split(" ")[1])
    assert (await popper.pop(pollTime="200")).code == Answer.POLLING_TIMEOUT
    longer = changed(got, answer)
    assert (await popper.ack(got)).code == Answer.NO_MESSAGE
    sooner = await popper.change(longer, 0)
    assert sooner.code == Answer.SUCCESS
    assert bodies(await popper.pop(pollTime="9000")) == [b"pay"]
    assert (await popper.change(longer, 10)).code == Answer.NO_MESSAGE
