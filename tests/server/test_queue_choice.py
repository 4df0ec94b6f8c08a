"""A queue id below 0: the sender leaves the choice to the broker, as Apache's proxy does."""

from __future__ import annotations

from collections import Counter

import pytest

from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command
from tests.server.peer import BORN_MS, Peer, records, send_ext
from tests.server.test_sending import batch_item
from tests.server.test_timers import listed, unique
from tests.server.transacting import COMMIT, begin, end

QUEUES = 3
PLAIN = "T"


async def v1(peer: Peer, queue_id: str, properties: str) -> Command:
    ext = {
        "producerGroup": "g", "topic": PLAIN, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
        "queueId": queue_id, "sysFlag": "0", "bornTimestamp": str(BORN_MS), "flag": "0", "properties": properties,
        "reconsumeTimes": "0", "unitMode": "false", "batch": "false",
    }  # fmt: skip
    return await peer.ask(Request.SEND_MESSAGE, ext, b"v1")


async def v2(peer: Peer, queue_id: str, properties: str) -> Command:
    return await peer.send(PLAIN, b"v2", properties, e=queue_id)


async def batch(peer: Peer, queue_id: str, properties: str) -> Command:
    items = b"".join(batch_item(b"item %d" % number, unique(number).encode()) for number in range(2))
    return await peer.ask(Request.SEND_BATCH_MESSAGE, send_ext(PLAIN, properties, e=queue_id, m="true"), items)


async def in_queue(peer: Peer, queue_id: str) -> list[bytes]:
    answer = await peer.pull(PLAIN, queueId=queue_id)
    return [message.body for message in records(answer.body)] if answer.code == Answer.SUCCESS else []


@pytest.mark.parametrize("known", [False, True], ids=["first of its kind", "known shape"])
@pytest.mark.parametrize("queue_id", ["-1", "-7", "-2147483648"])
@pytest.mark.parametrize("send", [v1, v2])
async def test_the_broker_picks_a_queue_and_says_which(peer: Peer, send, queue_id: str, known: bool) -> None:
    await peer.create_topic(PLAIN, QUEUES)
    before = Counter[str]()
    if known:
        for _ in range(3):
            before[(await send(peer, "0", unique())).ext["queueId"]] += 1
    picked = Counter[str]()
    for number in range(2 * QUEUES):
        answer = await send(peer, queue_id, unique(number))
        assert answer.code == Answer.SUCCESS, answer.remark
        chosen = answer.ext["queueId"]
        assert answer.ext["queueOffset"] == str(before[chosen] + picked[chosen])
        picked[chosen] += 1
    assert picked == {str(number): 2 for number in range(QUEUES)}
    for chosen, count in (picked + before).items():
        assert len(await in_queue(peer, chosen)) == count


async def test_a_batch_goes_whole_to_one_queue(peer: Peer) -> None:
    await peer.create_topic(PLAIN, QUEUES)
    chosen = set()
    for _ in range(QUEUES):
        answer = await batch(peer, "-1", "")
        assert (answer.code, answer.ext["queueOffset"]) == (Answer.SUCCESS, "0")
        assert await in_queue(peer, answer.ext["queueId"]) == [b"item 0", b"item 1"]
        chosen.add(answer.ext["queueId"])
    assert chosen == {"0", "1", "2"}


async def test_what_waits_goes_to_the_queue_that_was_picked(peer: Peer) -> None:
    await peer.create_topic(PLAIN, QUEUES)
    timers = [await v2(peer, "-1", f"{unique(n)}TIMER_DELAY_SEC\x013600\x02") for n in range(QUEUES)]
    said = {answer.ext["queueId"] for answer in timers}
    assert said == {str(item["queueId"]) for item in (await listed(peer))["items"]} == {"0", "1", "2"}
    delayed = await v2(peer, "-1", f"{unique()}DELAY\x011\x02")
    answer = await peer.pull(PLAIN, queueId=delayed.ext["queueId"], sysFlag="6", suspendTimeoutMillis="15000")
    assert [message.body for message in records(answer.body)] == [b"v2"]


async def test_a_half_is_committed_to_the_queue_that_was_picked(peer: Peer) -> None:
    await peer.create_topic("orders", QUEUES)
    for number in range(QUEUES):
        half = await begin(peer, key=f"C00002024A5C30946E0968C7AD36000{number}", e="-1")
        assert (await end(peer, half, COMMIT)).code == Answer.SUCCESS
        answer = await peer.pull("orders", queueId=str(number))
        assert [message.queue_id for message in records(answer.body)] == [number]


async def test_only_what_no_queue_has_is_refused(peer: Peer) -> None:
    await peer.create_topic(PLAIN, QUEUES)
    for send in (v1, v2, batch):
        assert (await send(peer, str(QUEUES), unique())).code == Answer.INVALID_PARAMETER
        assert (await send(peer, str(QUEUES - 1), unique())).code == Answer.SUCCESS


async def test_a_queue_that_is_only_read_any_more_takes_what_old_routes_send(peer: Peer) -> None:
    await peer.create_topic(PLAIN, 4, writeQueueNums="2")
    picked = {(await v2(peer, "-1", unique(number))).ext["queueId"] for number in range(4)}
    assert picked == {"0", "1"}
    assert (await v2(peer, "3", unique())).ext["queueId"] == "3"
    assert (await v2(peer, "4", unique())).code == Answer.INVALID_PARAMETER


async def test_a_topic_made_by_its_first_message_takes_it_too(peer: Peer) -> None:
    assert (await v2(peer, "-1", unique())).code == Answer.SUCCESS


async def test_a_message_given_back_to_a_retry_topic_and_one_without_an_answer(peer: Peer) -> None:
    await peer.heartbeat("c1", "G")
    answer = await peer.send("%RETRY%G", b"again", unique(), e="-1")
    assert (answer.code, answer.ext["queueId"]) == (Answer.SUCCESS, "0")
