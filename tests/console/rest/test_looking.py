"""GET: messages by every id, topics, groups, levels."""

from __future__ import annotations

import httpx
import pytest
from msgspec.structs import replace

from broker.client import AsyncAdmin, AsyncProducer, prepare
from broker.server.broker import BrokerService
from console.rest.errors import InvalidIdentifier
from console.rest.identifiers import MessageIdentifier, parse
from tests.console.rest.conftest import MakeToken

ONE = "/api/v1/topics/orders/messages"


async def test_a_message_is_found_by_its_three_ids(api: httpx.AsyncClient, admin: AsyncAdmin) -> None:
    sent = (await api.post(ONE, json={"body": "hello", "keys": ["k"]})).json()
    stored = (await admin.pull("orders", sent["queue"], sent["queue_offset"], 1))[0]
    answers = [
        await api.get(f"/api/v1/messages/{sent['id']}"),
        await api.get(f"/api/v1/messages/{stored.offset_message_id}"),
        await api.get(f"/api/v1/messages/{sent['message_id']}", params={"topic": "orders"}),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert answers[0].json() == answers[1].json() == answers[2].json()
    found = answers[0].json()
    assert (found["id"], found["body"], found["keys"], found["state"]) == (sent["id"], "hello", ["k"], "stored")


async def test_a_waiting_message_says_so_and_when_it_is_due(api: httpx.AsyncClient) -> None:
    sent = (await api.post(ONE, json={"body": "x", "delay_level": 2})).json()
    found = (await api.get(f"/api/v1/messages/{sent['id']}")).json()
    assert (found["state"], found["topic"], found["due_ms"]) == ("waiting", "orders", sent["due_ms"])
    assert [each["topic"] for each in found["records"]] == ["SCHEDULE_TOPIC_XXXX"]
    by_unique_id = await api.get(f"/api/v1/messages/{sent['message_id']}", params={"topic": "orders"})
    assert by_unique_id.json() == found


async def test_what_clients_told_of_a_message_is_told_with_it(api: httpx.AsyncClient) -> None:
    sent = (await api.post(ONE, json={"body": "x"})).json()
    address = f"/api/v1/messages/{sent['id']}"
    assert (await api.get(address)).json()["trace"] == []
    key = sent["message_id"]
    before = f"SubBefore\x011700000000100\x01Region\x01billing\x01R1\x01{key}\x010\x01k\x0110.0.0.9\x02"
    after = f"SubAfter\x01R1\x01{key}\x017\x01false\x01k\x010\x011700000000107\x01billing\x02"
    told = {"body": before + after, "keys": [key]}
    assert (await api.post("/api/v1/topics/RMQ_SYS_TRACE_TOPIC/messages", json=told)).status_code == 201
    assert (await api.get(address)).json()["trace"] == [
        {
            "what": "consumed", "at_ms": 1700000000100, "group": "billing", "client": "10.0.0.9", "took_ms": 7,
            "succeeded": False, "retries": 0, "state": None,
        }
    ]  # fmt: skip


@pytest.fixture
def of_orders(make_token: MakeToken) -> dict[str, str]:
    """The header of a token that reads one topic."""
    return {"authorization": f"Bearer {make_token(read=('orders',))}"}


async def test_nothing_is_told_of_a_message_that_only_has_the_same_unique_id(
    api: httpx.AsyncClient, admin: AsyncAdmin, service: BrokerService, of_orders: dict[str, str]
) -> None:
    await admin.create_topic("payroll", queues=1)
    foreign = (await api.post("/api/v1/topics/payroll/messages", json={"body": "x"})).json()
    key = foreign["message_id"]
    message = prepare("ours")
    forged = replace(message, message_id=key, properties=message.properties.replace(message.message_id, key))
    async with AsyncProducer("shop", service.namesrv_address) as producer:
        await producer.send_each("orders", [forged])
    pub = ("Pub", "1700000000000", "Region", "payers", "payroll", key, "", "", "10.0.0.8:1", "1", "1", "0", "0", "true")
    before = f"SubBefore\x011700000000100\x01Region\x01wages\x01R1\x01{key}\x010\x01k\x0110.0.0.9\x02"
    told = {"body": "\x01".join(pub) + "\x02" + before, "keys": [key]}
    assert (await api.post("/api/v1/topics/RMQ_SYS_TRACE_TOPIC/messages", json=told)).status_code == 201
    address = f"/api/v1/messages/{key}?topic=orders"
    assert [line["what"] for line in (await api.get(address)).json()["trace"]] == ["sent", "consumed"]
    answer = await api.get(address, headers=of_orders)
    assert (answer.status_code, answer.json()["trace"]) == (200, [])


async def test_a_body_that_is_no_text_is_given_as_base64(api: httpx.AsyncClient) -> None:
    sent = (await api.post(ONE, json={"body_base64": "/w=="})).json()
    found = (await api.get(f"/api/v1/messages/{sent['id']}")).json()
    assert (found["body"], found["body_base64"]) == (None, "/w==")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("m1AAAA", 400), ("m2AAAA", 400), ("m1" + "A" * 700, 400), ("hello", 400), ("m1%00", 400),
        (str(MessageIdentifier("broker-a", "orders", 10**6, "A" * 32)), 404),
        (str(MessageIdentifier("broker-b", "orders", 0, "A" * 32)), 404),
        ("0" * 32 + "?topic=orders", 404), ("0" * 32 + "?topic=a/b", 400), ("0" * 32 + "?what=1", 400),
        ("7F000001000000010000000000000000", 400),
    ],
)  # fmt: skip
async def test_ids_of_nothing_are_refused(api: httpx.AsyncClient, path: str, status: int) -> None:
    await api.post(ONE, json={"body": "x"})
    answer = await api.get(f"/api/v1/messages/{path}")
    assert answer.status_code == status


async def test_an_id_whose_position_holds_another_message_finds_nothing(api: httpx.AsyncClient) -> None:
    sent = parse((await api.post(ONE, json={"body": "x"})).json()["id"])
    other = MessageIdentifier(sent.broker, sent.topic, sent.position, "B" * 32)
    assert (await api.get(f"/api/v1/messages/{other}")).status_code == 404


async def test_what_a_token_may_not_read_is_not_shown(
    anonymous: httpx.AsyncClient, make_token_later: MakeToken, token: str
) -> None:
    everything = {"authorization": f"Bearer {token}"}
    sent = (await anonymous.post(ONE, json={"body": "x"}, headers=everything)).json()
    whole = (await anonymous.get(f"/api/v1/messages/{sent['id']}", headers=everything)).json()
    invoices_only = {"authorization": f"Bearer {make_token_later}"}
    assert (await anonymous.get(f"/api/v1/messages/{sent['id']}", headers=invoices_only)).status_code == 403
    by_offset = await anonymous.get(f"/api/v1/messages/{whole['offset_message_id']}", headers=invoices_only)
    assert by_offset.status_code == 404
    assert (await anonymous.get("/api/v1/topics", headers=invoices_only)).json() == {
        "topics": [],
        "brokers_missing": [],
    }


@pytest.fixture
def make_token_later(make_token: MakeToken) -> str:
    """A token for invoices alone."""
    return make_token(publish=(), read=("invoice",))


async def test_topics_groups_and_levels_are_listed(api: httpx.AsyncClient) -> None:
    await api.post(ONE, json={"body": "x", "delay_level": 2})
    topics = (await api.get("/api/v1/topics")).json()["topics"]
    assert {"name": "orders", "broker": "broker-a", "read_queues": 4, "write_queues": 4, "permission": 6} in topics
    assert (await api.get("/api/v1/groups")).json() == {"groups": [], "brokers_missing": []}
    levels = (await api.get("/api/v1/schedule/levels")).json()["levels"]
    waiting = {"level": 2, "delay_ms": 3_600_000, "offset": 0, "max_offset": 1, "backlog": 1}
    assert levels[1] == {**waiting, "broker": "broker-a"}


@pytest.mark.parametrize("key", ["0123456789ABCDEF" * 2, "", "short", "x" * 15, "红"])
def test_ids_are_read_as_they_were_written(key: str) -> None:
    identifier = MessageIdentifier("broker-a", "orders|%_-", 2**63 - 1, key)
    assert parse(str(identifier)) == identifier


@pytest.mark.parametrize("text", ["", "m1", "m1=", "m1!!!!", "m1AAAAAAAAAAD_", "m1" + "A" * 30, "m1AAAAAAAAAAAAAAA"])
def test_other_text_is_no_id(text: str) -> None:
    with pytest.raises(InvalidIdentifier):
        parse(text)
