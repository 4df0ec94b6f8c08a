"""The index hash is Java's, whatever parts of a key were seen before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.engine.queues.index import Index
from broker.engine.testing import SimulatedFiles
from broker.rocketmq.message import string_hash

INDEX = Index(SimulatedFiles(), "/index", 16, 16)


@given(st.text(max_size=40) | st.text("AB#0", max_size=40))
def test_the_hash_in_parts_is_the_hash_of_the_whole(key: str) -> None:
    value = string_hash(key)
    assert INDEX.hash_of(key) == (abs(value) if value != -(1 << 31) else 0)


def test_javas_lowest_number_has_no_absolute_value() -> None:
    assert string_hash("polygenelubricants") == -(1 << 31)
    assert INDEX.hash_of("polygenelubricants") == 0


@given(st.lists(st.text("AB#019~", max_size=12), min_size=1, max_size=9), st.sampled_from(["T", "topic", "späte"]))
def test_hashes_of_many_are_those_of_each(keys: list[str], topic: str) -> None:
    assert INDEX.hashes_of(topic, keys) == [INDEX.hash_of(f"{topic}#{key}") for key in keys]


@given(st.lists(st.text("AB#019~", max_size=40) | st.text(max_size=9), min_size=1, max_size=9))
def test_hashes_of_many_texts_are_those_of_each(texts: list[str]) -> None:
    assert INDEX.hashes(texts) == [INDEX.hash_of(text) for text in texts]
