"""Members as the real Redisson packs them, and poison."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.redisson.errors import MemberUnreadable
from broker.redisson.packing import Packing, detect, pack, unpack
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
