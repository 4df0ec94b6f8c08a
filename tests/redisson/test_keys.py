"""Names of keys, with and without a hash tag."""

from __future__ import annotations

import pytest

from broker.redisson.queue import QueueKeys, name_of
from tests.redisson.fixtures import transcript


@pytest.mark.parametrize(
    ("name", "timeout"),
    [
        ("orders", b"redisson_delay_queue_timeout:{orders}"),
        ("{orders}:q", b"redisson_delay_queue_timeout:{orders}:q"),
        ("a}b", b"redisson_delay_queue_timeout:{a}b}"),
        ("q{x", b"redisson_delay_queue_timeout:q{x"),
        ("{a}:{b}", b"redisson_delay_queue_timeout:{a}:{b}"),
        ("订单", "redisson_delay_queue_timeout:{订单}".encode()),
    ],
)
def test_keys_of_a_name_and_back(name: str, timeout: bytes) -> None:
    assert QueueKeys(name).timeout == timeout
    assert name_of(timeout) == name
    assert QueueKeys(name).target == name.encode()


def test_the_keys_are_those_of_the_real_client() -> None:
    keys = QueueKeys("transcript:q")
    offer = next(step for step in transcript("4.7.0-string")["steps"] if step["op"].startswith("offer"))
    sent = offer["commands"][0]["command"]
    assert [keys.target, keys.timeout, keys.waiting, keys.channel] == [key.encode() for key in sent[3:7]]


def test_another_key_belongs_to_no_queue() -> None:
    assert name_of(b"redisson_lock:{orders}") is None
    assert name_of(b"redisson_delay_queue_timeout:plain") is None


def test_a_name_that_is_no_utf8_survives() -> None:
    key = b"redisson_delay_queue_timeout:{\xff}"
    name = name_of(key)
    assert name is not None
    assert QueueKeys(name).timeout == key


def test_our_own_keys_share_the_slot() -> None:
    keys = QueueKeys("orders")
    assert all(b"{orders}" in key for key in (keys.index, keys.values, keys.aside, keys.waiting, keys.channel))
