"""Damaged inputs: what a corpus holds, changed a little or blown up, the same for a seed."""

from __future__ import annotations

import random
import resource
import time
from collections import Counter
from dataclasses import dataclass, field

from .decoders import Decoder

TOKENS = (
    b"\0", b"\xff", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0", b"\x01", b"\x02", b'"', b"{",
    b"}", b"[", b"]", b",", b":", b"\\", b"\\ud800", b"null", b"true", b"-1", b"0", b"1e999", b"NaN", b"9" * 400,
    b"\xc3\x28", b"\xed\xa0\x80", "\u0663".encode(), "\u202e".encode(), b"../", b"%00", b" ", b"\n", b"(", b")", b"'",
    b"AND", b"NOT ",
)  # fmt: skip
#: an input is blown up to so much at most
LARGE_BYTES = 64 << 10
#: pieces of which a text is made that has no end, or not the one that is looked for
PIECES = (
    b" ",
    b'\\"',
    b"\\",
    b'"',
    b"1 ",
    b"1",
    b"1,",
    b"a",
    b"a ",
    b"a.",
    b",",
    b"{ ",
    b"[",
    b"\n",
    b"\x01",
    b"a\x01b\x02",
    b"(",
)
#: processor time of one call, a hundred times what any takes: whoever needs more does not go through its input once
MOST_S = 2.0
MOST_GROWTH_KB = 512 << 10


@dataclass(slots=True)
class Fuzzing:
    """One run with a seed."""

    seed: int
    read: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    slowest: str = ""

    def run(self, decoder: Decoder, count: int) -> None:
        """Call a decoder so often. Raises AssertionError that says with what."""
        corpus, draws = decoder.corpus(), random.Random(f"{self.seed} {decoder.name}")
        most_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + MOST_GROWTH_KB
        for raw in corpus:
            self._try(decoder, raw)
        for _ in range(count):
            self._try(decoder, damaged(draws, corpus))
        now_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert now_kb < most_kb, f"seed {self.seed}: {decoder.name} took {now_kb - most_kb:,} KB more than it may"

    def repeat(self, decoder: Decoder) -> None:
        """Call a decoder with long texts of one small piece, by themselves and in what it reads. Raises as `run`."""
        whole = max(decoder.corpus(), key=len)[:2_000]
        for piece in PIECES:
            long = piece * (LARGE_BYTES // len(piece))
            for beginning in (b"", b'"', b"1", b"{", whole, whole[: len(whole) // 2]):
                self._try(decoder, beginning + long + b"!")

    def _try(self, decoder: Decoder, raw: bytes) -> None:
        begin_s = time.process_time()
        try:
            decoder.call(raw)
            self.read[decoder.name] += 1
        except decoder.errors:
            self.refused[decoder.name] += 1
        except BaseException as error:
            where = f"seed {self.seed}: {decoder.name} of {shown(raw)}"
            raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
        took_s = time.process_time() - begin_s
        assert took_s < MOST_S, (
            f"seed {self.seed}: {decoder.name} took {took_s:.1f} s for {len(raw):,} bytes: {shown(raw)}"
        )
        if took_s > self.slowest_s:
            self.slowest_s, self.slowest = took_s, f"{decoder.name} of {len(raw):,} bytes"

    def report(self) -> str:
        """Return the line that every run prints."""
        return (
            f"fuzzing (seed {self.seed}): {len(self.read | self.refused)} decoders, {self.read.total():,} inputs read, "
            f"{self.refused.total():,} refused, slowest {self.slowest_s * 1000:.0f} ms ({self.slowest})"
        )


def shown(raw: bytes) -> str:
    """Return an input as a corpus has it, or its beginning."""
    return raw.hex() if len(raw) < 2_000 else f"{raw[:1_000].hex()}... ({len(raw):,} bytes)"


def damaged(draws: random.Random, corpus: list[bytes]) -> bytes:
    """Return one of the corpus, changed in one to six places."""
    raw = bytearray(draws.choice(corpus))
    for _ in range(draws.choice((1, 1, 1, 2, 3, 6))):
        _strike(draws, raw, corpus)
    if draws.random() < 0.01:
        piece = bytes(raw[draws.randrange(len(raw) + 1) :][: draws.choice((1, 2, 3, 8, 40))]) or b"{"
        at = draws.randrange(len(raw) + 1)
        raw[at:at] = piece * (draws.choice((1_000, LARGE_BYTES)) // len(piece))
    return bytes(raw)


def _strike(draws: random.Random, raw: bytearray, corpus: list[bytes]) -> None:
    if not raw:
        raw += draws.choice(TOKENS)
    at, token, how = draws.randrange(len(raw)), draws.choice(TOKENS), draws.randrange(9)
    if how == 0:
        raw[at] = draws.randrange(256)
    elif how == 1:
        raw[at] ^= 1 << draws.randrange(8)
    elif how == 2:
        del raw[at:]
    elif how == 3:
        del raw[at : at + draws.randrange(1, 9)]
    elif how == 4:
        raw[at:at] = token
    elif how == 5:
        raw[at : at + len(token)] = token
    elif how == 6:
        other = draws.randrange(len(raw))
        raw[at:at] = raw[other : other + draws.randrange(1, 40)]
    elif how == 7:
        other = draws.choice(corpus)
        raw[at:] = other[draws.randrange(len(other) + 1) :]
    else:
        size = draws.choice((1, 2, 4, 8))
        number = draws.choice((0, 1, 127, 128, 1 << 31, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, draws.getrandbits(64)))
        raw[at : at + size] = (number % (1 << 8 * size)).to_bytes(size, draws.choice(("big", "little")))
