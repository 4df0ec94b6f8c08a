"""Who is connected: producers and consumers with their groups, one client with what it says of itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection
from django.test import Client

from broker.client import Consumer
from broker.client._event_loop import event_loop_thread
from broker.client.remoting import RemotingClient
from broker.rocketmq.codes import Request
from broker.rocketmq.frame import Command
from console.features.clients import ClientRole, ClientRow, read_client, read_clients, read_running
from console.site.evidence import StaleReason
from tests.console.stage import HOSTILE, Stage
from tests.console.ui.test_pages import tags_of, words
from tests.server.peer import heartbeat_body

#: as Java's consumers answer 307, objects as keys included
RUNNING = (
    '{"jstack":"%s","properties":{"PROP_CLIENT_VERSION":"V5_5_0","PROP_THREADPOOL_CORE_SIZE":"20"},'
    '"mqTable":{{"brokerName":"broker-a","queueId":1,"topic":"orders"}:{"cachedMsgCount":3,"commitOffset":41,'
    '"lastConsumeTimestamp":1700000000000,"lastPullTimestamp":1700000000500,"locked":true}},"mqPopTable":{},'
    '"statusTable":{"orders":{"consumeFailedMsgs":2,"consumeFailedTPS":0.5,"consumeOKTPS":12.5,"consumeRT":7.25,'
    '"pullRT":1.5,"pullTPS":3.0}},"subscriptionSet":[]}'
)


@contextmanager
def connected(
    stage: Stage, client_id: str, group: str = "billing", *, answers: bool = False, stack: str = ""
) -> Iterator[None]:
    """A client that is a consumer of `group` and a producer of `producers`, and answers 307 or does not."""

    async def come() -> RemotingClient:
        client = RemotingClient()
        if answers:
            client.register(Request.GET_CONSUMER_RUNNING_INFO, told)
        await client.invoke(
            stage.broker.address,
            Request.HEART_BEAT,
            {},
            heartbeat_body(client_id, group, "orders", "paid || late"),
            3_000,
        )
        return client

    def told(_: str, request: Command) -> Command:
        said = stack if request.ext["jstackEnable"] == "true" else ""
        return request.answer(body=(RUNNING % json.dumps(said)[1:-1]).encode())

    async def go(client: RemotingClient) -> None:
        await client.close()

    client = event_loop_thread.run(come())
    try:
        stage.mirror.run_once()
        yield
    finally:
        event_loop_thread.run(go(client))


def rows(search: str = "", role: str = "") -> list[ClientRow]:
    return list(read_clients(search=search, role=role).rows)


def test_producers_and_consumers_are_listed_with_what_they_say(stage: Stage) -> None:
    with connected(stage, "c1@7"):
        consumer, producer = rows("c1@7")
        assert (consumer.role, consumer.group, consumer.language) == (ClientRole.CONSUMER, "billing", "PYTHON")
        assert (producer.role, producer.group) == (ClientRole.PRODUCER, "producers")
        assert consumer.subscriptions == (("orders", "paid || late"),)
        assert (consumer.consume_type, consumer.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
        assert consumer.since_ms is not None and consumer.since_ms == consumer.seen_ms == producer.since_ms
        assert consumer.address.startswith("127.0.0.1:")
        assert rows("c1@7", "consumer") == [consumer]
        assert rows("BILL")[0].group == "billing"
        assert rows("nobody there") == []
    stage.mirror.run_once()
    assert rows("c1@7") == []


def test_the_list_has_pages(stage: Stage) -> None:
    with connected(stage, "a"), connected(stage, "b"), connected(stage, "c"):
        data = read_clients(role="consumer", count=2)
        assert ([row.client_id for row in data.rows], data.total, data.following) == (["a", "b"], 3, 2)
        data = read_clients(role="consumer", count=2, offset=2)
        assert ([row.client_id for row in data.rows], data.previous, data.following) == (["c"], 0, None)
        assert (data.consumers, data.clients >= 3) == (3, True)


def test_one_client_says_what_it_holds_and_shows_its_threads_when_asked(stage: Stage, operator: Client) -> None:
    with connected(stage, "java@1", answers=True, stack='TID: 1 "main" <script>alert(1)</script>'):
        page = words(operator.get("/clients/one/?id=java@1"))
        assert "Reported for billing" in page
        assert "PROP_CLIENT_VERSION" in page
        assert "Threads" not in page
        html = operator.get("/clients/one/?id=java@1&stack=1").content.decode()
        assert "TID: 1 &quot;main&quot; &lt;script&gt;" in html
        held = read_running("billing", "java@1").info
        assert held is not None
        assert [(each.queue.topic, each.queue.queue_id, each.offset, each.cached) for each in held.queues] == [
            ("orders", 1, 41, 3)
        ]
        assert held.topics[0].done_per_s == 12.5


def test_a_client_that_does_not_answer_is_shown_all_the_same(stage: Stage, operator: Client) -> None:
    with connected(stage, "c1@7"):
        answer = operator.get("/clients/one/", {"id": "c1@7"})
    assert answer.status_code == 200
    assert "This client does not support this request." in words(answer)


def test_a_python_consumer_shows_its_queues(stage: Stage, operator: Client) -> None:
    stage.producer.send("orders", "one", queue_id=1)
    got = threading.Event()
    consumer = Consumer("billing", stage.broker.namesrv, from_where="first")
    consumer.subscribe("orders", "*", lambda message: got.set())
    with consumer:
        assert got.wait(20), "the consumer got nothing"
        stage.wait_for(lambda: stage.mirror.run_once() or rows(role="consumer"))
        [row] = rows(role="consumer")
        page = words(operator.get("/clients/one/", {"id": row.client_id}))
        held = read_running("billing", row.client_id).info
    assert "Reported for billing" in page
    assert held is not None
    assert [each.queue.queue_id for each in held.queues if each.queue.topic == "orders"] == [0, 1]


def test_who_has_left_is_not_found(stage: Stage, operator: Client) -> None:
    assert operator.get("/clients/one/?id=nobody").status_code == 404
    assert operator.get("/clients/one/").status_code == 404
    assert read_client("nobody").evidence.stale_reason is StaleReason.NOT_THERE


def test_a_filter_that_nobody_matches_is_said(stage: Stage, operator: Client) -> None:
    assert "No client matches." in words(operator.get("/clients/?role=consumer"))
    assert "No client matches." in words(operator.get("/clients/?search=nobody-there"))


def test_the_group_leads_to_its_members(stage: Stage, operator: Client) -> None:
    with connected(stage, "c1@7"):
        html = operator.get("/groups/billing/").content.decode()
    assert 'href="/clients/one/?id=c1%407"' in html
    assert 'href="/clients/?search=billing"' in html


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_neither_run_nor_break_anything(stage: Stage, operator: Client, text: str) -> None:
    with connected(stage, text, answers=True, stack=text):
        for page in (operator.get("/clients/"), operator.get("/clients/one/", {"id": text, "stack": "1"})):
            assert page.status_code == 200
            tags = tags_of(page.content.decode())
            assert {name for _, held in tags for name in held if name.startswith("on")} == set()
            assert not any("alert(" in (held.get("src") or "") for _, held in tags)
            assert "<script>alert" not in page.content.decode()


def test_on_a_broker_that_is_polled_the_page_says_what_is_missing(stage: Stage, operator: Client) -> None:
    with connected(stage, "c1@7"):
        with connection.cursor() as cursor:
            cursor.execute("UPDATE broker_mirrorstate SET polling = true")
        page = words(operator.get("/clients/"))
    assert "This broker does not report when consumers connected" in page
    assert "c1@7" in page
