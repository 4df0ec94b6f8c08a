"""A group that reads from two brokers: its lag and members in total and by broker, moved at both, its dead letters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from broker.client import Consumer
from console.features.clients import read_client, read_clients
from console.features.groups import read
from console.features.groups.read import GroupState
from console.operations import workflow
from console.operations.actor import PERMISSIONS, Actor
from console.operations.errors import InvalidParameter
from console.operations.models import Operation
from console.palette import groups_named, topics_named
from console.site.chosen import choice_of, choosing
from console.site.mirrored import lags_by_group, lags_of_each
from tests.console.several import A, B, Several, several
from tests.console.ui.test_pages import words

ACTOR = Actor("token shop", frozenset(PERMISSIONS))
KIND = "groups.reset_offsets"


@pytest.fixture
def read_both(transactional_db: None, settings: Any) -> Iterator[Several]:
    """`billing` has read three messages at broker-a and one at broker-b, where two more have come since."""
    with several(settings) as made:
        for number in range(3):
            made.send(A, "orders", f"a-{number}", queue_id=0)
        made.send(B, "orders", "b-0", queue_id=1)
        made.consume(count=4)
        for number in range(2):
            made.send(B, "orders", f"b-{number + 1}", queue_id=1)
        made.mirror()
        yield made


def do(**parameters: Any) -> Operation:
    parameters = {"group": "billing", "topic": "orders", **parameters}
    return workflow.start(KIND, parameters, ACTOR, reason="because")


def offset(both: Several, broker: str, queue_id: int) -> int:
    (found,) = [
        part.consumer_offset
        for part in both.admins[broker].consume_stats("billing").queues
        if (part.queue.topic, part.queue.queue_id) == ("orders", queue_id)
    ]
    return found


def test_lag_is_joined_by_broker_and_added(read_both: Several) -> None:
    (total,) = [lag for lag in lags_by_group([A, B]) if lag.group == "billing"]
    assert (total.lag, total.topics) == (2, 1)
    each = {broker: lag.lag for broker, lag in lags_of_each([A, B])[1] if lag.group == "billing"}
    assert each == {A: 0, B: 2}
    (row,) = [row for row in read.groups().rows if row.name == "billing"]
    assert (row.lag, row.brokers, row.state) == (2, (A, B), GroupState.NO_CONSUMER)
    with choosing(choice_of(A)):
        assert [row.lag for row in read.groups().rows if row.name == "billing"] == [0]


def test_the_page_has_its_queues_and_parts_by_broker(read_both: Several, operator: Client) -> None:
    data = read.group("billing")
    assert [(part.broker, part.group.lag) for part in data.parts] == [(A, 0), (B, 2)]
    orders = {(each.broker, each.queue_id): each.lag for each in data.queues if each.topic == "orders"}
    assert orders[B, 1] == 2
    assert orders[A, 0] == 0
    answer = operator.get("/groups/billing/")
    assert "By broker" in words(answer)
    assert "/at/broker-b/groups/billing/" in answer.content.decode()
    assert "By broker" not in words(operator.get("/at/broker-a/groups/billing/"))
    rows = json.loads(b"".join(operator.get("/groups/?as=json").streaming_content))
    assert {row["name"]: row["broker"] for row in rows}["billing"] == "broker-a broker-b"


def test_a_client_of_both_is_one_row(read_both: Several, operator: Client) -> None:
    consumer = Consumer("billing", read_both.cluster.namesrv)
    consumer.subscribe("orders", "*", lambda _message: None)
    with consumer:
        read_both.wait_for(lambda: _connected(read_both) == {A: 1, B: 1})
        read_both.mirror()
        (row,) = read_clients(role="consumer").rows
        assert (row.group, row.brokers) == ("billing", (A, B))
        assert read_clients().consumers == 1
        (member,) = read.group("billing").members or ()
        assert member.brokers == (A, B)
        assert read_client(row.client_id).rows == (row,)
        assert "broker-a broker-b" in words(operator.get("/clients/"))
        assert operator.get("/clients/one/", {"id": row.client_id}).status_code == 200


def _connected(both: Several) -> dict[str, int]:
    return {name: len(admin.consumers(["billing"])) for name, admin in both.admins.items()}


def test_it_is_moved_at_both_and_put_back_at_each(read_both: Several, operator: Client) -> None:
    row = do(to="first")
    assert row.results == {"offset_moved": 2}
    assert {item.label["broker"] for item in row.items.all()} == {A, B}
    assert (offset(read_both, A, 0), offset(read_both, B, 1)) == (0, 0)
    back = operator.post(f"/operations/{row.pk}/undo/")
    assert back.status_code == 303, words(back)
    assert "broker-b" in words(operator.get(back.headers["Location"]))
    operator.post(back.headers["Location"] + "confirm/", {"reason": "because"})
    assert (offset(read_both, A, 0), offset(read_both, B, 1)) == (3, 1)
    with pytest.raises(InvalidParameter, match="broker of each queue: broker-a, broker-b"):
        do(to="offsets", offsets=[[0, 1]])


def test_with_a_choice_it_is_moved_at_that_one(read_both: Several) -> None:
    with choosing(choice_of(B)):
        row = do(to="offsets", offsets=[[1, 0]])
    assert row.results == {"offset_moved": 1}
    assert (offset(read_both, A, 0), offset(read_both, B, 1)) == (3, 0)


def test_a_dead_broker_takes_no_page_with_it(read_both: Several, operator: Client) -> None:
    read_both.kill(B)
    for address in ("/groups/", "/groups/billing/", "/clients/"):
        answer = operator.get(address)
        assert answer.status_code == 200, address
        assert "broker-b" in words(answer)
    data = read.group("billing")
    assert data.group is not None
    assert data.group.lag == 2
    assert (data.evidence.stale_of, data.members_evidence.stale_of) == ((B,), (B,))
    row = do(to="first")
    assert (row.preview["away"], row.results) == ([B], {"offset_moved": 1})
    assert "broker-b does not respond: offsets there stay unchanged" in words(operator.get(f"/operations/{row.pk}/"))


def test_the_palette_has_each_name_once(read_both: Several) -> None:
    assert topics_named("orders", 8) == ["orders"]
    assert groups_named("bill", 8) == ["billing"]
