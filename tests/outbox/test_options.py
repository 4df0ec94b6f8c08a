"""The ways of sending from a transaction take the same options, and none of the client's is forgotten."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import pytest

from broker.client import MessageOptions, Outgoing, Timing, prepare
from broker.outbox import producer, send_later, send_on_commit
from broker.outbox.after_commit import as_outgoing
from broker.outbox.models import OutboxMessage
from broker.outbox.transaction_block import Block

#: `group` is said otherwise: by the block, or as `producer_group`.
ELSEWHERE = {"body", "group", "timing"}


def test_the_options_are_those_of_a_message() -> None:
    wanted = (set(inspect.signature(prepare).parameters) - ELSEWHERE) | set(get_type_hints(Timing))
    assert set(get_type_hints(MessageOptions)) == wanted


@pytest.mark.parametrize("way", [send_later, send_on_commit, Block.send, producer.send])
def test_each_way_takes_all_options(way: Any) -> None:
    named = inspect.signature(way).parameters
    assert named["options"].annotation == "Unpack[MessageOptions]"
    assert not set(named) & set(get_type_hints(MessageOptions))


@pytest.mark.django_db
def test_a_row_gives_back_all_that_a_message_has() -> None:
    several: list[Any] = [
        {"queue_id": 3, "broker": "broker-b"}, {"sharding_key": "4711", "tag": "a", "keys": ["k"]}, {},
        {"delay_ms": 5, "schedule_key": "order-1"},
    ]  # fmt: skip
    for options in several:
        row = OutboxMessage.objects.get(pk=send_later("orders", "b", **options).pk)
        read = as_outgoing(row)
        made = prepare("b", **options)
        names = set(Outgoing.__struct_fields__) - {"message_id", "properties"}
        assert {name: getattr(read, name) for name in names} == {name: getattr(made, name) for name in names}
        assert read.properties.replace(read.message_id, "") == made.properties.replace(made.message_id, "")
