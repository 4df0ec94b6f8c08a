"""Shares of queues, as AllocateMessageQueueAveragely gives them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client import MessageQueue
from broker.client._membership import allocate


def queues(count: int) -> list[MessageQueue]:
    return [MessageQueue("T", "broker-a", number) for number in range(count)]


@pytest.mark.parametrize(
    ("count", "members", "expected"),
    [
        (4, 1, [[0, 1, 2, 3]]),
        (4, 2, [[0, 1], [2, 3]]),
        (4, 3, [[0, 1], [2], [3]]),
        (5, 3, [[0, 1], [2, 3], [4]]),
        (2, 3, [[0], [1], []]),
        (0, 2, [[], []]),
    ],
)
def test_shares_are_runs_and_the_first_get_one_more(count: int, members: int, expected: list[list[int]]) -> None:
    clients = [f"c{number}" for number in range(members)]
    given_out = [[queue.queue_id for queue in allocate(client, clients, queues(count))] for client in clients]
    assert given_out == expected


def test_a_client_that_the_broker_does_not_list_gets_nothing() -> None:
    assert allocate("stranger", ["a", "b"], queues(4)) == ()


@given(st.integers(0, 40), st.sets(st.text(min_size=1, max_size=5), min_size=1, max_size=12), st.randoms())
def test_every_queue_has_one_reader_whatever_the_order_of_the_lists(count, clients, random) -> None:  # type: ignore[no-untyped-def]  # hypothesis gives them
    taken = []
    for client in clients:
        shuffled_queues, shuffled_clients = queues(count), list(clients)
        random.shuffle(shuffled_queues)
        random.shuffle(shuffled_clients)
        taken += allocate(client, shuffled_clients, shuffled_queues)
    assert sorted(queue.queue_id for queue in taken) == list(range(count))
