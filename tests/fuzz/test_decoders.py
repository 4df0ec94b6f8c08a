"""No decoder answers hostile bytes with anything but its own errors, or with silence."""

from __future__ import annotations

import random
import time
from contextlib import suppress

import pytest

from broker.rocketmq.errors import BadFrame
from broker.rocketmq.frame import decode

from .decoders import CORPUS, DECODERS
from .mutating import Fuzzing

#: inputs of each decoder in the gate, with the same seed each time
INPUTS = 1_500
HOUR_S = 3_600


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.name)
def test_what_others_write_is_read_or_refused(decoder) -> None:
    fuzzing = Fuzzing(1)
    fuzzing.run(decoder, INPUTS)
    assert fuzzing.read[decoder.name] > 0, "its corpus is nothing that it reads"


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.name)
def test_a_long_text_of_one_small_piece_is_read_or_refused_in_one_pass(decoder) -> None:
    Fuzzing(1).repeat(decoder)


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.name)
def test_what_is_nested_too_deeply_is_refused(decoder) -> None:
    deep = b'{"a":' * 20_000
    samples = [deep, b"[" * 70_000, *(raw[: raw.find(b"{")] + deep for raw in decoder.corpus() if b"{" in raw)]
    for raw in samples:
        with suppress(*decoder.errors):
            decoder.call(raw)


def test_a_header_that_is_nested_too_deeply_is_no_frame() -> None:
    header = b'{"other":' * 7_000
    with pytest.raises(BadFrame):
        decode(len(header).to_bytes(4, "big") + header)


def test_every_corpus_belongs_to_a_decoder() -> None:
    assert {path.stem for path in CORPUS.glob("*.hex")} == {decoder.name for decoder in DECODERS}


@pytest.mark.soak
def test_what_others_write_is_read_or_refused_for_an_hour(say) -> None:
    end_s = time.monotonic() + HOUR_S
    while time.monotonic() < end_s:
        fuzzing = Fuzzing(random.SystemRandom().randrange(1 << 30))
        for decoder in DECODERS:
            fuzzing.run(decoder, 10_000)
        say(fuzzing.report())
