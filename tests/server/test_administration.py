"""Topics, groups, offsets, queries: what administrators and consoles ask."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import tomllib
from typing import Any

import pytest

from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command
from broker.server.broker import BrokerService
from broker.version import version
from tests.house.sources import ROOT
from tests.server.frames import Recorded, recorded_exchanges
from tests.server.peer import Peer, records

_OBJECT_KEY = re.compile(r"([{,])(\{[^{}]*\}):")
_BARE_KEY = re.compile(r"([{,])(\d+):")


def lenient_json(body: bytes) -> Any:
    """JSON as fastjson writes it: objects and bare numbers as keys."""
    text = _OBJECT_KEY.sub(lambda found: found[1] + json.dumps(found[2]) + ":", body.decode())
    return json.loads(_BARE_KEY.sub(r'\1"\2":', text))


def body_of(recorded: Recorded) -> Any:
    """The JSON body of a recorded answer."""
    return lenient_json(recorded.frame[8 + int.from_bytes(recorded.frame[5:8], "big") :])


def shape(value: Any) -> Any:
    """The names in a JSON value, without what they are called by topics and groups."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    return type(value).__name__ if not isinstance(value, list) else "list"


def ok(answer: Command) -> Any:
    """The body of an answer that says success."""
    assert answer.code == Answer.SUCCESS, answer.remark
    return lenient_json(answer.body) if answer.body else None


async def test_a_topic_is_made_changed_and_deleted(service: BrokerService, peer: Peer) -> None:
    ok(await peer.create_topic("X", 2, attributes="+message.type=DELAY"))
    assert ok(await peer.ask(Request.GET_TOPIC_CONFIG, {"topic": "X", "lo": "true"}))["attributes"] == {
        "message.type": "DELAY"
    }
    ok(await peer.create_topic("X", 3, attributes="-message.type,+a=b"))
    changed = ok(await peer.ask(Request.GET_TOPIC_CONFIG, {"topic": "X"}))
    assert (changed["readQueueNums"], changed["attributes"]) == (3, {"a": "b"})
    await peer.send("X")
    ok(await peer.ask(Request.DELETE_TOPIC_IN_BROKER, {"topic": "X"}))
    assert (await peer.ask(Request.GET_TOPIC_CONFIG, {"topic": "X"})).code == Answer.TOPIC_NOT_EXIST
    ok(await peer.ask(Request.DELETE_TOPIC_IN_BROKER, {"topic": "X"}))
    assert service.engine.topics.get("X") is None


async def test_a_topic_config_has_the_real_brokers_names(peer: Peer) -> None:
    await peer.create_topic("WireJSONTopic", 2)
    _, real = recorded_exchanges(Request.GET_TOPIC_CONFIG)[0]
    assert ok(await peer.ask(Request.GET_TOPIC_CONFIG, {"topic": "WireJSONTopic"})) == body_of(real)


async def test_the_list_of_topics_has_the_real_brokers_shape_and_comes_in_parts(peer: Peer) -> None:
    for name in ("A", "B", "C"):
        await peer.create_topic(name)
    answer = await peer.ask(Request.GET_ALL_TOPIC_CONFIG, {"topicSeq": "0", "maxTopicNum": "2000"})
    everything = ok(answer)
    _, real = recorded_exchanges(Request.GET_ALL_TOPIC_CONFIG)[0]
    assert set(everything) == {"dataVersion", "topicConfigTable"} < set(body_of(real))
    assert shape(everything["topicConfigTable"]["A"]) == shape(body_of(real)["topicConfigTable"]["TBW102"])
    assert answer.ext == {"totalTopicNum": str(len(everything["topicConfigTable"]))}
    names: set[str] = set()
    for start in range(0, int(answer.ext["totalTopicNum"]), 2):
        part = ok(await peer.ask(Request.GET_ALL_TOPIC_CONFIG, {"topicSeq": str(start), "maxTopicNum": "2"}))
        assert len(part["topicConfigTable"]) <= 2
        names |= set(part["topicConfigTable"])
    assert names == set(everything["topicConfigTable"])


async def test_topic_stats_list_all_queues_with_objects_as_keys(peer: Peer) -> None:
    await peer.create_topic("WireJSONTopic", 2)
    await peer.send("WireJSONTopic")
    stats = ok(await peer.ask(Request.GET_TOPIC_STATS_INFO, {"topic": "WireJSONTopic"}))
    _, real = recorded_exchanges(Request.GET_TOPIC_STATS_INFO)[0]
    assert shape(stats) == shape(body_of(real))
    rows = {json.loads(key)["queueId"]: row for key, row in stats["offsetTable"].items()}
    assert (rows[0]["minOffset"], rows[0]["maxOffset"]) == (0, 1)
    assert rows[0]["lastUpdateTimestamp"] > 1_700_000_000_000
    assert rows[1] == {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0}


async def test_a_group_is_made_described_and_deleted(service: BrokerService, peer: Peer) -> None:
    _, real = recorded_exchanges(Request.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)[0]
    table = body_of(real)["subscriptionGroupTable"]
    wanted = {**table["CID_ONSAPI_OWNER"], "groupName": "G", "retryMaxTimes": 3}
    ok(await peer.ask(Request.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=json.dumps(wanted).encode()))
    assert ok(await peer.ask(Request.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "G"})) == wanted
    listed = ok(await peer.ask(Request.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
    assert set(listed) == set(body_of(real))
    assert listed["subscriptionGroupTable"]["G"] == wanted
    await peer.send("T")
    await peer.ask(
        Request.UPDATE_CONSUMER_OFFSET, {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"}
    )
    ok(await peer.ask(Request.DELETE_SUBSCRIPTIONGROUP, {"groupName": "G", "removeOffset": "true"}))
    assert service.engine.groups.get("G") is None
    assert service.engine.offsets.get("G", "T", 0) is None
    missing = await peer.ask(Request.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "G", "escLook": "true"})
    assert missing.code == Answer.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_progress_of_a_group_has_the_real_brokers_shape(peer: Peer) -> None:
    await peer.create_topic("WireJSONTopic", 2)
    for _ in range(3):
        await peer.send("WireJSONTopic")
    await peer.heartbeat("c1", "G", topic="WireJSONTopic")
    await peer.ask(
        Request.UPDATE_CONSUMER_OFFSET,
        {"consumerGroup": "G", "topic": "WireJSONTopic", "queueId": "0", "commitOffset": "2"},
    )
    stats = ok(await peer.ask(Request.GET_CONSUME_STATS, {"consumerGroup": "G"}))
    _, real = recorded_exchanges(Request.GET_CONSUME_STATS)[0]
    assert shape(stats) == shape(body_of(real))
    rows = {json.loads(key)["queueId"]: row for key, row in stats["offsetTable"].items()}
    assert (rows[0]["brokerOffset"], rows[0]["consumerOffset"]) == (3, 2)
    assert rows[0]["lastTimestamp"] > 0
    assert ok(await peer.ask(Request.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "WireJSONTopic"})) == {"groupList": ["G"]}


async def test_a_group_without_an_offset_begins_where_the_real_broker_says(peer: Peer) -> None:
    await peer.create_topic("T", 2)
    await peer.send("T")

    async def offset(queue_id: int, **ext: str) -> Command:
        asked = {"consumerGroup": "G", "topic": "T", "queueId": str(queue_id)}
        return await peer.ask(Request.QUERY_CONSUMER_OFFSET, asked | ext)

    assert (await offset(0)).ext == {"offset": "0"}
    nothing = await offset(1)
    recorded = [
        answer for _, answer in recorded_exchanges(Request.QUERY_CONSUMER_OFFSET) if answer.header["code"] == 22
    ]
    assert (nothing.code, nothing.remark) == (Answer.QUERY_NOT_FOUND, recorded[0].header["remark"])
    assert (await offset(0, setZeroIfNotFound="false")).code == Answer.QUERY_NOT_FOUND


async def test_offsets_of_a_group_are_kept_and_told(peer: Peer) -> None:
    await peer.send("T")
    commit = {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"}
    unknown = await peer.ask(Request.UPDATE_CONSUMER_OFFSET, commit)
    assert unknown.code == Answer.SUBSCRIPTION_GROUP_NOT_EXIST
    await peer.heartbeat("c1", "G")
    ok(await peer.ask(Request.UPDATE_CONSUMER_OFFSET, commit))
    assert (await peer.ask(Request.QUERY_CONSUMER_OFFSET, commit)).ext == {"offset": "1"}
    assert ok(await peer.ask(Request.GET_ALL_CONSUMER_OFFSET))["offsetTable"] == {"T@G": {"0": 1}}


async def test_the_ends_of_a_queue_and_moments_in_it(peer: Peer) -> None:
    await peer.send("T")
    await peer.send("T")
    queue = {"topic": "T", "queueId": "0"}
    first, second = records((await peer.pull("T")).body)
    assert (await peer.ask(Request.GET_MAX_OFFSET, queue)).ext == {"offset": "2"}
    assert (await peer.ask(Request.GET_MIN_OFFSET, queue)).ext == {"offset": "0"}
    assert (await peer.ask(Request.GET_EARLIEST_MSG_STORETIME, queue)).ext == {"timestamp": str(first.store_ms)}
    for moment_ms, offset in ((0, "0"), (first.store_ms, "0"), (second.store_ms + 1, "2")):
        asked = queue | {"timestamp": str(moment_ms)}
        assert (await peer.ask(Request.SEARCH_OFFSET_BY_TIMESTAMP, asked)).ext == {"offset": offset}
    empty = {"topic": "T", "queueId": "1"}
    assert (await peer.ask(Request.GET_EARLIEST_MSG_STORETIME, empty)).ext == {"timestamp": "-1"}
    assert (await peer.ask(Request.GET_MAX_OFFSET, {"topic": "T", "queueId": "9"})).code == Answer.INVALID_PARAMETER


async def test_messages_are_found_by_key_unique_id_and_position(peer: Peer) -> None:
    unique = "C00002024A5C30946E0968C7AD360000"
    for number in range(3):
        tags = "TAGS\x01paid\x02" if number == 2 else ""
        await peer.send("T", b"%d" % number, f"KEYS\x01all k{number}\x02UNIQ_KEY\x01{unique[:-1]}{number}\x02{tags}")
    asked = {"topic": "T", "maxNum": "10", "beginTimestamp": "0", "endTimestamp": str((1 << 63) - 1)}

    async def found(key: str, **ext: str) -> set[bytes]:
        answer = await peer.ask(Request.QUERY_MESSAGE, asked | {"key": key} | ext)
        assert set(answer.ext) == {"indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}
        return {message.body for message in records(answer.body)}

    assert await found("all") == {b"0", b"1", b"2"}
    assert await found("all", maxNum="2") == {b"1", b"2"}
    assert await found("k1") == {b"1"}
    assert await found("paid", indexType="T") == {b"2"}
    assert (await peer.ask(Request.QUERY_MESSAGE, asked | {"key": "all", "indexType": "X"})).code == 29
    assert await found(f"{unique[:-1]}2", indexType="U", _UNIQUE_KEY_QUERY="true") == {b"2"}
    nothing = await peer.ask(Request.QUERY_MESSAGE, asked | {"key": "no-such-key"})
    assert (nothing.code, nothing.body) == (Answer.QUERY_NOT_FOUND, b"")
    position = records((await peer.pull("T", 1)).body)[0].position
    answer = await peer.ask(Request.VIEW_MESSAGE_BY_ID, {"offset": str(position), "topic": "T"})
    assert [message.body for message in records(answer.body)] == [b"1"]


async def test_asking_for_a_position_where_no_record_starts_is_no_damage(service: BrokerService, peer: Peer) -> None:
    await peer.send("T")
    for position in (1, 17, 100):
        answer = await peer.ask(Request.VIEW_MESSAGE_BY_ID, {"offset": str(position)})
        assert answer.code in {Answer.SYSTEM_ERROR, Answer.QUERY_NOT_FOUND}
    assert service.engine.health().state == "OK"


async def test_queue_entries_of_a_lane_carry_the_due_time(peer: Peer) -> None:
    await peer.create_topic("T")
    for _ in range(3):
        await peer.send("T", b"later", "DELAY\x012\x02")
    lane = {"topic": "SCHEDULE_TOPIC_XXXX", "queueId": "1", "index": "1", "count": "5"}
    body = ok(await peer.ask(Request.QUERY_CONSUME_QUEUE, lane))
    _, real = recorded_exchanges(Request.QUERY_CONSUME_QUEUE)[0]
    assert set(body) == set(body_of(real))
    assert (body["minQueueIndex"], body["maxQueueIndex"], len(body["queueData"])) == (0, 3, 2)
    assert set(body["queueData"][0]) == set(body_of(real)["queueData"][0])
    parked = records((await peer.pull("SCHEDULE_TOPIC_XXXX", queueId="1")).body)
    assert [entry["tagsCode"] for entry in body["queueData"]] == [
        message.store_ms + 3_600_000 for message in parked[1:]
    ]
    missing = await peer.ask(Request.QUERY_CONSUME_QUEUE, lane | {"topic": "NO_SUCH", "queueId": "0"})
    assert (missing.code, missing.remark) == (Answer.SYSTEM_ERROR, "0@NO_SUCH is not exist!")


async def test_progress_of_the_delay_levels(peer: Peer) -> None:
    await peer.create_topic("T")
    await peer.send("T", b"later", "DELAY\x012\x02")
    assert ok(await peer.ask(Request.GET_ALL_DELAY_OFFSET))["offsetTable"] == {"2": 0}
    levels = ok(await peer.ask(Request.GET_SCHEDULE_STATUS))["levels"]
    assert [(level["number"], level["delayMs"], level["maxOffset"]) for level in levels] == [
        (1, 1000, 0),
        (2, 3_600_000, 1),
    ]


async def test_the_broker_is_of_the_version_that_the_project_has(peer: Peer) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert ok(await peer.ask(Request.GET_CHANGES))["broker"]["version"] == f"Escapement {project['version']}"
    assert importlib.import_module("broker").__version__ == version() == project["version"]


async def test_changes_are_told_once(peer: Peer) -> None:
    await peer.create_topic("T")
    first = ok(await peer.ask(Request.GET_CHANGES))
    assert first["full"]
    assert "T" in [topic["topicName"] for topic in first["topics"]]
    quiet = ok(await peer.ask(Request.GET_CHANGES, {"token": first["token"]}))
    assert (quiet["full"], quiet["topics"], quiet["queues"]) == (False, [], [])
    await peer.send("T")
    news = ok(await peer.ask(Request.GET_CHANGES, {"token": quiet["token"]}))
    assert [(queue["topic"], queue["queueId"], queue["max"]) for queue in news["queues"]] == [("T", 0, 1)]


async def test_who_waits_for_changes_is_told_of_messages_and_of_what_nobody_tells(peer: Peer) -> None:
    await peer.create_topic("T")
    token = ok(await peer.ask(Request.GET_CHANGES))["token"]
    asked = asyncio.ensure_future(peer.ask(Request.GET_CHANGES, {"token": token, "waitMs": "5000"}))
    await peer.ask(Request.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})
    assert not asked.done()
    await peer.send("T")
    news = ok(await asked)
    assert [queue["max"] for queue in news["queues"]] == [1]
    asked = asyncio.ensure_future(peer.ask(Request.GET_CHANGES, {"token": news["token"], "waitMs": "5000"}))
    await peer.create_topic("U")
    assert "U" in [topic["topicName"] for topic in ok(await asked)["topics"]]


async def test_who_waits_in_vain_is_told_that_nothing_changed(peer: Peer) -> None:
    token = ok(await peer.ask(Request.GET_CHANGES))["token"]
    quiet = ok(await peer.ask(Request.GET_CHANGES, {"token": token, "waitMs": "20"}))
    assert (quiet["token"], quiet["topics"], quiet["queues"]) == (token, [], [])


async def test_the_brokers_configuration_is_text_of_names_and_values(peer: Peer) -> None:
    answer = await peer.ask(Request.GET_BROKER_CONFIG)
    values = dict(line.split("=", 1) for line in answer.body.decode().splitlines())
    assert (values["brokerName"], values["messageDelayLevel"], values["flushDiskType"]) == (
        "broker-a",
        "1s 1h",
        "SYNC_FLUSH",
    )
    assert values["listenPort"] == peer.address.rpartition(":")[2]
    _, real = recorded_exchanges(Request.GET_BROKER_CONFIG)[0]
    known = real.frame[8 + int.from_bytes(real.frame[5:8], "big") :].decode()
    assert all(f"\n{name}=" in f"\n{known}" for name in values)


async def test_the_brokers_runtime_names_what_java_tools_read(peer: Peer) -> None:
    await peer.create_topic("T")
    await peer.send("T", b"later", "DELAY\x012\x02")
    table = ok(await peer.ask(Request.GET_BROKER_RUNTIME_INFO))["table"]
    needed = {
        "brokerVersionDesc", "putTps", "getTransferredTps", "sendThreadPoolQueueSize", "pullThreadPoolQueueSize",
        "sendThreadPoolQueueHeadWaitTimeMills", "pullThreadPoolQueueHeadWaitTimeMills", "pageCacheLockTimeMills",
        "earliestMessageTimeStamp", "commitLogDiskRatio", "timerReadBehind", "timerOffsetBehind", "timerCongestNum",
        "timerEnqueueTps", "timerDequeueTps", "msgPutTotalYesterdayMorning", "msgPutTotalTodayMorning",
        "msgGetTotalYesterdayMorning", "msgGetTotalTodayMorning", "bootTimestamp",
    }  # fmt: skip
    assert needed <= set(table)
    assert {type(value) for value in table.values()} == {str}
    assert table["scheduleMessageOffset_2"] == "0,1"


@pytest.mark.parametrize("code", sorted({17, 215, 21, 351, 202, 300, 200, 201, 207, 352, 208, 12, 33, 321, 45, 26, 28}))
async def test_served_codes_are_never_answered_as_unknown(peer: Peer, code: int) -> None:
    assert (await peer.ask(code)).code != Answer.REQUEST_CODE_NOT_SUPPORTED
