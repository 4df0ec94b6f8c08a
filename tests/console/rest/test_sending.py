"""POST: what is stored, and what is refused with nothing written."""

from __future__ import annotations

import base64
import json

import httpx
import msgspec
import pytest

from broker.client import AsyncAdmin
from console.rest.errors import DuplicateName
from console.rest.request_body import MAX_BATCH_BYTES, MAX_SINGLE_BYTES, NewMessage, NewMessages, decode, names_in

ONE = "/api/v1/topics/orders/messages"
MANY = "/api/v1/topics/orders/messages:batch"


async def stored_count(admin: AsyncAdmin) -> int:
    """How many messages the broker has ever taken: the end of its log is 0 as long as nothing was written."""
    runtime = await admin.runtime()
    return int(runtime["commitLogMaxOffset"])


async def test_a_message_is_on_disk_and_says_where(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    answer = await api.post(
        ONE, json={"body": "红", "tag": "paid", "keys": ["42"], "properties": {"colour": "red"}, "group": "shop"}
    )
    assert answer.status_code == 201
    sent = answer.json()
    assert (sent["topic"], sent["broker"], sent["flushed"], sent["due_ms"]) == ("orders", "broker-a", True, None)
    stored = (await admin.pull("orders", sent["queue"], sent["queue_offset"], 1))[0]
    assert (stored.body.decode(), stored.tags, stored.keys) == ("红", "paid", ["42"])
    assert (stored.unique_key, stored.properties["colour"]) == (sent["message_id"], "red")


async def test_bytes_travel_as_base64(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    sent = (await api.post(ONE, json={"body_base64": base64.b64encode(bytes(range(256))).decode()})).json()
    assert (await admin.pull("orders", sent["queue"], sent["queue_offset"], 1))[0].body == bytes(range(256))


async def test_a_delayed_message_says_when_it_is_due(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    sent = (await api.post(ONE, json={"body": "x", "delay_level": 2})).json()
    entry = (await admin.queue_entries("SCHEDULE_TOPIC_XXXX", 1, sent["queue_offset"], 1)).entries[0]
    assert sent["due_ms"] == entry.tags_code


async def test_asynchronous_durability_is_said_not_to_be_on_disk(api: httpx.AsyncClient) -> None:
    answer = await api.post(ONE, json={"body": "x", "durability": "async"})
    assert (answer.status_code, answer.json()["flushed"]) == (202, False)


async def test_each_message_of_a_batch_has_its_own_answer(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    answer = await api.post(
        MANY,
        json={
            "messages": [
                {"body": "a"},
                {"body": "b", "tag": "two words"},
                {"body": "c"},
                {"body": "d", "reject_past": True},
                {},
            ]
        },
    )
    told = answer.json()
    assert (answer.status_code, told["stored"], told["refused"]) == (207, 2, 3)
    assert [each["status"] for each in told["results"]] == [201, 400, 201, 400, 400]
    assert told["results"][1]["problem"]["field"] == "tag"
    for index, body in ((0, b"a"), (2, b"c")):
        sent = told["results"][index]["sent"]
        assert (await admin.pull("orders", sent["queue"], sent["queue_offset"], 1))[0].body == body


async def test_a_send_may_name_its_queue_or_a_key_that_leads_to_one(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    assert [(await api.post(ONE, json={"body": "x", "queue": 1})).json()["queue"] for _ in range(2)] == [1, 1]
    keyed = [(await api.post(ONE, json={"body": "x", "sharding_key": "4711"})).json() for _ in range(3)]
    assert len({sent["queue"] for sent in keyed}) == 1
    stored = (await admin.pull("orders", keyed[0]["queue"], keyed[0]["queue_offset"], 1))[0]
    assert stored.properties["__SHARDINGKEY"] == "4711"
    before = await stored_count(admin)
    for place, code, field in (
        ({"queue": 99}, "queue_not_found", "queue"),
        ({"queue": 0, "sharding_key": "4711"}, "invalid_message", "sharding_key"),
    ):
        refused = await api.post(ONE, json={"body": "x"} | place)
        told = refused.json()
        assert (refused.status_code, told["code"], told["field"]) == (400, code, field)
    assert (await api.post(ONE, json={"body": "x", "queue": -1})).json()["code"] == "invalid_request"
    assert await stored_count(admin) == before
    told = (await api.post(MANY, json={"messages": [{"body": "a", "queue": 0}, {"body": "b", "queue": 99}]})).json()
    assert [each["status"] for each in told["results"]] == [201, 400]
    assert (told["results"][0]["sent"]["queue"], told["results"][1]["problem"]["field"]) == (0, "queue")


async def test_a_thousand_messages_are_taken_and_one_more_is_not(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    full = await api.post(MANY, json={"messages": [{"body": str(number)} for number in range(1000)]})
    assert full.json()["stored"] == 1000
    assert len({each["sent"]["id"] for each in full.json()["results"]}) == 1000
    before = await stored_count(admin)
    assert (await api.post(MANY, json={"messages": [{"body": "x"}] * 1001})).status_code == 400
    assert (await api.post(MANY, json={"messages": []})).status_code == 400
    assert await stored_count(admin) == before


async def test_the_largest_body_passes_in_base64_too(api: httpx.AsyncClient) -> None:
    largest = base64.b64encode(bytes(4 << 20)).decode()
    assert (await api.post(ONE, json={"body_base64": largest}, timeout=30)).status_code == 201
    one_more = base64.b64encode(bytes((4 << 20) + 1)).decode()
    refused = await api.post(ONE, json={"body_base64": one_more}, timeout=30)
    assert (refused.status_code, refused.json()["field"]) == (400, "body")


BAD_BODIES: list[tuple[bytes, str]] = [
    (b"", "not_json"),
    (b"{", "not_json"),
    (b"{} {}", "not_json"),
    (b'{"body":"\xff"}', "not_json"),
    (b'{"body":"\\ud800"}', "not_json"),
    (b'\xef\xbb\xbf{"body":"x"}', "not_json"),
    (b"[]", "invalid_request"),
    (b"null", "invalid_request"),
    (b'{"body":5}', "invalid_request"),
    (b'{"body":null}', "invalid_request"),
    (b'{"body":"x","unknown":1}', "invalid_request"),
    (b'{"body":"x","delay_level":"3"}', "invalid_request"),
    (b'{"body":"x","delay_level":3.5}', "invalid_request"),
    (b'{"body":"x","delay_level":-1}', "invalid_request"),
    (b'{"body":"x","delay_level":true}', "invalid_request"),
    (b'{"body":"x","delay_level":99999999999999999999}', "invalid_request"),
    (b'{"body":"x","keys":"k"}', "invalid_request"),
    (b'{"body":"x","keys":[1]}', "invalid_request"),
    (b'{"body":"x","properties":{"a":1}}', "invalid_request"),
    (b'{"body":"x","properties":[]}', "invalid_request"),
    (b'{"body":"x","durability":"maybe"}', "invalid_request"),
    (b'{"body":"x","properties":' + b'{"a":' * 100_000, "invalid_request"),
    (b"[" * 100_000, "invalid_request"),
    (b'{"body":"x","body":"y"}', "duplicate_name"),
    (b'{"body":"x","properties":{"a":"1","a":"2"}}', "duplicate_name"),
    (b'{"body":"x","b\\u006fdy":"y"}', "duplicate_name"),
    (b'{"body" : "x","body":"y"}', "duplicate_name"),
    (b'{"body":"x","body"\n:"y"}', "duplicate_name"),
    (b'{"tag":null,"body":"x","tag":null}', "duplicate_name"),
    (b'{"body":"x","properties":{"a\\":":"1","a\\":":"2"}}', "duplicate_name"),
    (b"{}", "invalid_message"),
    (b'{"body":"x","body_base64":"eA=="}', "invalid_message"),
    (b'{"body_base64":"e"}', "invalid_message"),
    (b'{"body_base64":"e A="}', "invalid_message"),
    (b'{"body":"x","tag":"a||b"}', "invalid_message"),
    (b'{"body":"x","keys":["a b"]}', "invalid_message"),
    (b'{"body":"x","group":"a b"}', "invalid_message"),
    (b'{"body":"x","properties":{"DELAY":"1"}}', "invalid_message"),
    (b'{"body":"x","properties":{"a\\u0001":"1"}}', "invalid_message"),
    (b'{"body":"x","properties":{"a":"' + b"x" * 33_000 + b'"}}', "invalid_message"),
]


@pytest.mark.parametrize(("body", "code"), BAD_BODIES)
async def test_bad_bodies_are_refused_and_nothing_is_written(
    api: httpx.AsyncClient, admin: AsyncAdmin, body: bytes, code: str
) -> None:
    answer = await api.post(ONE, content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]
    assert answer.json()["remedy"]
    assert await stored_count(admin) == 0


VALUES = {
    "body": "x", "body_base64": "eA==", "tag": "t", "keys": ["k"], "properties": {"a": "1", "b": "2"}, "group": "g",
    "queue": 1, "broker": "b", "sharding_key": "s", "delay_level": 1, "deliver_at": 1_800_000_000_000, "delay_ms": 1,
    "schedule_key": "o", "on_conflict": "keep", "reject_past": True, "durability": "async",
}  # fmt: skip


@pytest.mark.parametrize("name", NewMessage.__struct_fields__)
def test_names_are_counted_whatever_is_given(name: str) -> None:
    part = json.dumps({name: VALUES[name]})[1:-1]
    count = 1 + 2 * (name == "properties")
    one = f"{{{part}}}".encode()
    assert names_in(decode(one, msgspec.json.Decoder(NewMessage))) == count
    several = msgspec.json.Decoder(NewMessages)
    assert names_in(decode(b'{"messages":[{"body":"x"},%b,{}]}' % one, several)) == 2 + count
    with pytest.raises(DuplicateName):
        decode(b'{"messages":[{"body":"x"},{%b,%b}]}' % (part.encode(), part.encode()), several)


async def test_fields_that_are_not_known_are_named_not_ignored(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    answer = await api.post(ONE, json={"body": "x", "dedup_key": "x"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert "dedup_key" in answer.json()["detail"]
    assert await stored_count(admin) == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "application/json; charset=latin-1"}, 415),
        ({"content-type": ""}, 415),
        ({"content-encoding": "gzip"}, 415),
        ({"content-encoding": "deflate"}, 415),
        ({"content-type": "application/json; charset=UTF-8"}, 201),
        ({"content-encoding": "identity"}, 201),
    ],
)
async def test_only_plain_json_is_read(api: httpx.AsyncClient, headers: dict[str, str], status: int) -> None:
    answer = await api.post(ONE, content=b'{"body":"x"}', headers={"content-type": "application/json"} | headers)
    assert answer.status_code == status


@pytest.mark.parametrize(("path", "limit"), [(ONE, MAX_SINGLE_BYTES), (MANY, MAX_BATCH_BYTES)])
async def test_bodies_over_the_limit_are_refused_by_their_announced_length(
    api: httpx.AsyncClient, path: str, limit: int
) -> None:
    answer = await api.post(path, content=b" " * (limit + 1), headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(
    ("topic", "status"),
    [
        ("a b", 400), ("..", 404), ("a.b", 400), ("a" * 128, 400), ("SCHEDULE_TOPIC_XXXX", 400), ("a%2Fb", 404),
        ("%25RETRY%25group", 400), ("RMQ_SYS_TRANS_HALF_TOPIC", 400), ("%00", 400), ("a" * 127, 201),
    ],
)  # fmt: skip
async def test_topics_that_cannot_be_written_are_refused(api: httpx.AsyncClient, topic: str, status: int) -> None:
    answer = await api.post(f"/api/v1/topics/{topic}/messages", json={"body": "x"})
    assert answer.status_code == status


async def test_hostile_text_comes_back_as_json_text_only(api: httpx.AsyncClient) -> None:
    answer = await api.post(ONE, content=json.dumps({"body": "x", "tag": "<script>alert(1)</script> "}).encode(),
                            headers={"content-type": "application/json"})  # fmt: skip
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("address", [ONE, MANY, "/api/v1/topics/orders/groups/billing:receive"])
async def test_parameters_that_nobody_declared_are_refused(
    api: httpx.AsyncClient, admin: AsyncAdmin, address: str
) -> None:
    answer = await api.post(f"{address}?delay_ms=5", json={"body": "x"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")
    assert await stored_count(admin) == 0
