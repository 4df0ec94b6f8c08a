"""RocketMQ's own properties are known by their names, as its stores and clients write them."""

from __future__ import annotations

import pytest
from broker.client.outgoing import prepare

from broker.client.errors import InvalidArgument
from broker.rocketmq.properties import SYSTEM_PROPERTIES, is_delayed


def test_no_sender_says_when_a_message_was_popped_first() -> None:
    """`tests/data/rocketmq-5.5.0/retry_dlq` has the name as Apache RocketMQ writes it."""
    assert "1ST_POP_TIME" in SYSTEM_PROPERTIES
    with pytest.raises(InvalidArgument, match="1ST_POP_TIME"):
        prepare(b"body", properties={"1ST_POP_TIME": "1795247800850"})


@pytest.mark.parametrize("name", ["DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
def test_what_comes_out_later_is_told_by_its_properties(name: str) -> None:
    assert is_delayed(f"\x02UNIQ_KEY\x01A\x02{name}\x015\x02")
    assert not is_delayed(f"\x02UNIQ_KEY\x01A\x02note\x01{name}\x02X{name}\x015\x02")
