"""A record of which only a part reached the disk is never taken for a whole one."""

from __future__ import annotations

import pytest

from broker.engine.testing import SECTOR_BYTES, open_engine
from broker.rocketmq.message import decode, is_sound

from . import golden


def record_of(body: bytes) -> bytes:
    """A record as the engine writes it."""
    driver = open_engine()
    driver.engine.topics.ensure("orders", 1)
    return driver.engine.record_at(driver.send("orders", body, KEYS="one two", TAGS="t" * 40).position)


@pytest.mark.parametrize("end", ["zero", "ones", "text"])
def test_a_record_whose_end_is_missing_is_not_sound(end):
    """The body's own checksum does not cover the properties, and the record's stands among what is missing."""
    record = record_of(b"b" * 300)
    assert is_sound(record, 0) is None
    filler = {"zero": b"\0", "ones": b"\xff", "text": b"x"}[end]
    for kept in range(len(record)):
        torn = record[:kept] + filler * (len(record) - kept)
        if end == "text" and kept < len(record) - 11:
            continue  # plain text instead of the checksum's name is a property: only a sector of the same text does it
        assert torn == record or is_sound(torn, 0) is not None, kept


def test_records_without_a_checksum_of_their_own_are_still_read_whole_and_not_torn():
    store = golden.load("plain")
    for entry in store.sent:
        position = golden.position_of(entry)
        segment = store.files[f"/store/commitlog/{position - position % 16_384:020d}"]
        at = position % 16_384
        record = segment[at : at + int.from_bytes(segment[at : at + 4], "big")]
        assert is_sound(record, position) is None
        assert decode(record).unique_key == entry["msgId"]
        for cut in range(SECTOR_BYTES - at % SECTOR_BYTES, len(record), SECTOR_BYTES):
            assert is_sound(record[:cut] + bytes(len(record) - cut), position) is not None
