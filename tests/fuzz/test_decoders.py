"""No decoder answers hostile bytes with anything but its own errors, or with silence."""

from __future__ import annotations

import random
import time

import pytest

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
