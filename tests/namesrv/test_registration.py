"""What brokers say of themselves is read, or refused by name before anything is taken."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.namesrv import registration
from broker.namesrv.registration import DataVersion, QueueData, body_crc, read_registration, registration_body
from broker.rocketmq.errors import BrokerError, RequestRefused

HEADER = {
    "brokerName": "broker-a", "brokerAddr": "10.0.0.1:10911", "clusterName": "C", "brokerId": "0", "haServerAddr": "",
}  # fmt: skip
TOPIC = {"topicName": "T", "readQueueNums": 4, "writeQueueNums": 8, "perm": 6, "topicSysFlag": 1}
VERSION = DataVersion(7, 1_795_249_116_470, 2)
QUEUES = QueueData("broker-a", 4, 8, 6, 1)


def body_of(*topics: dict[str, Any], **more: Any) -> bytes:
    table = {"dataVersion": VERSION.to_json(), "topicConfigTable": {str(each["topicName"]): each for each in topics}}
    return json.dumps({"topicConfigSerializeWrapper": table, "filterServerList": [], **more}).encode()


def deflated(*parts: bytes | int) -> bytes:
    """The body of a registration with `compressed`: numbers as they are, the rest each behind its size."""
    content = b"".join(
        part.to_bytes(4, "big", signed=True) if isinstance(part, int) else len(part).to_bytes(4, "big") + part
        for part in parts
    )
    return zlib.compress(content, 9)


@dataclass
class Told:
    """A topic of our broker."""

    name: str
    count: int

    def to_json(self) -> dict[str, Any]:
        return TOPIC | {"topicName": self.name, "readQueueNums": self.count}


WHOLE = deflated(json.dumps(VERSION.to_json()).encode(), 1, b'T 4 8 6 SINGLE_TAG {"+a":"b"}', b'["fs:1"]', 0)


def test_a_registration_is_read() -> None:
    header = HEADER | {
        "haServerAddr": "10.0.0.1:10912",
        "heartbeatTimeoutMillis": "10000",
        "enableActingMaster": "true",
    }
    said = read_registration(header, body_of(TOPIC))
    assert (said.cluster, said.broker_name, said.broker_id, said.address) == ("C", "broker-a", 0, "10.0.0.1:10911")
    assert (said.ha_address, said.timeout_ms, said.is_acting_enabled) == ("10.0.0.1:10912", 10_000, True)
    assert (said.version, said.topics, said.is_complete) == (VERSION, {"T": QUEUES}, False)


def test_an_old_broker_says_nothing_of_standing_in() -> None:
    assert read_registration(HEADER, body_of(TOPIC)).is_acting_enabled is None


def test_no_body_is_no_topics() -> None:
    said = read_registration(HEADER, b"")
    assert (said.topics, said.version) == ({}, DataVersion())


def test_a_deflated_registration_is_read() -> None:
    said = read_registration(HEADER | {"compressed": "true", "bodyCrc32": str(body_crc(WHOLE))}, WHOLE)
    assert said.topics == {"T": QueueData("broker-a", 4, 8, 6)}
    assert (said.version, said.filter_servers) == (VERSION, ("fs:1",))


@given(
    st.integers(0, 1 << 40),
    st.dictionaries(st.from_regex(r"[A-Za-z0-9_%|-]{1,30}", fullmatch=True), st.integers(0, 64)),
)
def test_what_our_broker_says_is_read_as_it_was_meant(counter: int, queues: dict[str, int]) -> None:
    topics = [Told(name, count) for name, count in queues.items()]
    said = read_registration(HEADER | {"escComplete": "true"}, registration_body(DataVersion(counter, 5), topics))
    assert said.version == DataVersion(counter, 5)
    assert said.topics == {name: QueueData("broker-a", count, 8, 6, 1) for name, count in queues.items()}
    assert said.is_complete


@pytest.mark.parametrize(
    "change",
    [
        {"brokerName": ""}, {"brokerName": "a b"}, {"brokerName": "x" * 256}, {"clusterName": "C\n"},
        {"brokerAddr": "10.0.0.1"}, {"brokerAddr": "10.0.0.1:0"}, {"brokerAddr": "h:65536"}, {"brokerAddr": ":1"},
        {"brokerId": "-1"}, {"brokerId": "x"}, {"brokerId": str(1 << 63)}, {"haServerAddr": "nowhere"},
        {"heartbeatTimeoutMillis": "1"}, {"heartbeatTimeoutMillis": "9999999999"}, {"bodyCrc32": "1"},
        {"compressed": "true"},
    ],
    ids=str,
)  # fmt: skip
def test_a_header_that_makes_no_sense_is_refused(change: dict[str, str]) -> None:
    with pytest.raises((RequestRefused, BrokerError)):
        read_registration(HEADER | change, body_of(TOPIC))


@pytest.mark.parametrize("field", ["brokerName", "brokerAddr", "clusterName", "brokerId"])
def test_a_header_without_a_field_is_refused(field: str) -> None:
    with pytest.raises(RequestRefused, match=field):
        read_registration({name: value for name, value in HEADER.items() if name != field}, b"")


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"[]", b'{"topicConfigSerializeWrapper": 1}', b"\xff\xfe", b"[" * 100_000,
        body_of(TOPIC | {"topicName": ""}), body_of(TOPIC | {"topicName": "a b"}),
        body_of(TOPIC | {"topicName": "x" * 256}),
        body_of(TOPIC | {"readQueueNums": -1}), body_of(TOPIC | {"writeQueueNums": 1 << 40}),
        body_of(TOPIC | {"readQueueNums": 10**30}), body_of(TOPIC | {"perm": 16}), body_of(TOPIC | {"perm": "all"}),
        body_of(TOPIC | {"topicSysFlag": -1}), body_of(filterServerList=["x"] * 65), body_of(filterServerList=["a b"]),
        body_of(TOPIC).replace(b'"counter": 7', b'"counter": 99999999999999999999'),
    ],
    ids=lambda body: repr(body[:60]),
)  # fmt: skip
def test_a_body_that_makes_no_sense_is_refused(body: bytes) -> None:
    with pytest.raises((RequestRefused, BrokerError)):
        read_registration(HEADER, body)


@pytest.mark.parametrize(
    "body",
    [
        b"no zlib", WHOLE[:-9], deflated(b"{}"), deflated(b"{}", -1), deflated(b"{}", 1 << 30), deflated(-1),
        deflated(b"{}", 1, b"T 4 8"), deflated(b"{}", 1, b"T 4 8 x"), deflated(b"{}", 1, b"T 4 8 99", b"[]"),
        deflated(b"{}", 1, b"\xff 4 8 6", b"[]"), deflated(b"{}", 1, b"T 4 8 6", b"{}"), deflated(b"[]", 0, b"[]"),
    ],
    ids=repr,
)  # fmt: skip
def test_a_deflated_body_that_makes_no_sense_is_refused(body: bytes) -> None:
    with pytest.raises((RequestRefused, BrokerError)):
        read_registration(HEADER | {"compressed": "true"}, body)


def test_a_body_that_is_small_and_inflates_without_end_is_refused() -> None:
    with pytest.raises(BrokerError, match="inflated"):
        read_registration(HEADER | {"compressed": "true"}, zlib.compress(bytes(64 << 20)))


def test_more_topics_than_allowed_are_refused() -> None:
    topics = [TOPIC | {"topicName": f"T{number}"} for number in range(registration.MOST_TOPICS + 1)]
    with pytest.raises(BrokerError, match="65,536"):
        read_registration(HEADER, body_of(*topics))


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_read_or_refused(body: bytes, is_compressed: bool) -> None:
    try:
        read_registration(HEADER | {"compressed": str(is_compressed).lower()}, body)
    except (RequestRefused, BrokerError):
        return
