"""Members as the real Redisson packs them, and poison."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.redisson.codecs import Packing, detect, likely_packing, pack, unpack
from broker.redisson.errors import MemberUnreadable
from tests.redisson.fixtures import Offer, offers

RANDOM = st.binary(min_size=8, max_size=8)


@pytest.mark.parametrize("offer", offers(), ids=lambda offer: f"{offer.source}-{offer.java_type}-{offer.text[:8]!r}")
def test_every_member_of_the_real_client_is_read_and_written_alike(offer: Offer) -> None:
    found = unpack(offer.member)
    assert (found.packing, found.random, found.value) == (offer.packing, offer.random, offer.encoded)
    assert pack(offer.encoded, offer.random, Packing(offer.packing)) == offer.member


def test_both_packings_are_among_the_fixtures() -> None:
    assert {offer.packing for offer in offers()} == {"new", "old"}
    assert len(offers()) > 150


@given(st.binary(max_size=300), RANDOM, st.sampled_from(Packing))
def test_what_is_packed_is_unpacked(value: bytes, random: bytes, packing: Packing) -> None:
    found = unpack(pack(value, random, packing), likely=packing)
    assert (found.packing, found.random, found.value) == (packing, random, value)


def test_the_one_ambiguous_member_follows_the_queue() -> None:
    member = pack(b"\x00", b"\x08" + bytes(7), Packing.OLD)
    assert detect(member) is Packing.NEW
    assert detect(member, Packing.OLD) is Packing.OLD


@pytest.mark.parametrize("first", [*range(8), *range(9, 30), 255])
@pytest.mark.parametrize("value", [b"order-1", b"", bytes(2), bytes(40)], ids=["text", "empty", "two NULs", "NULs"])
def test_an_old_member_is_old_whatever_its_random_part_begins_with(first: int, value: bytes) -> None:
    """Its first byte is chance, and would be the length of a new one's random part: 7 fits every value."""
    random = bytes([first]) + b"\x00" * 7
    found = unpack(pack(value, random, Packing.OLD))
    assert (found.packing, found.random, found.value) == (Packing.OLD, random, value)


def test_members_that_fit_both_follow_the_last_one_that_does_not() -> None:
    both, old, new = (
        pack(b"\x00", b"\x08" + bytes(7), Packing.OLD),
        pack(b"a", b"r" * 8, Packing.OLD),
        pack(b"a", b"r" * 8),
    )
    assert likely_packing([new, old, both, b"poison"]) is Packing.OLD
    assert likely_packing([old, new, both]) is Packing.NEW
    assert likely_packing([both]) is Packing.NEW


def test_a_longer_random_part_is_honoured() -> None:
    member = b"\x0a" + b"r" * 10 + (3).to_bytes(8, "little") + b"abc"
    assert unpack(member).value == b"abc"


@pytest.mark.parametrize(
    "member",
    [b"", b"\x08", b"order-1", b"\x00" * 17 + b"x", pack(b"abc", b"r" * 8) + b"!", pack(b"abc", b"r" * 8)[:-1]],
)
def test_what_fits_no_packing_is_poison(member: bytes) -> None:
    assert detect(member) is None
    with pytest.raises(MemberUnreadable):
        unpack(member)


def test_a_random_part_has_eight_bytes() -> None:
    with pytest.raises(ValueError):
        pack(b"", b"short")
