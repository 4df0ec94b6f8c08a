"""Frames of every kind, damaged: each is read or refused by the protocol's own error, and the short ways read what the
long way reads or leave it alone."""

from __future__ import annotations

import random

import pytest

from broker.rocketmq.codes import Request
from broker.rocketmq.end_transaction import EndShortcut
from broker.rocketmq.errors import BadFrame, RequestRefused
from broker.rocketmq.frame import BINARY, JSON, Command, decode, encode
from broker.rocketmq.sends import SendShortcut, read_json_send, read_send_header
from broker.server.broker import BrokerService
from tests.server.frames import recorded_frames
from tests.server.peer import Peer, send_ext
from tests.server.stranger import stranger_at
from tests.server.test_endheader import PLAIN, framed, long_way

SEND = Request.SEND_MESSAGE_V2.to_bytes(2, "big")
END = Request.END_TRANSACTION.to_bytes(2, "big")
TOKENS = (
    b"\\u0001", b"\\ud800", b"\\x", b'"', b"\xff", b"\0", b"\0\x01e\0\0\0", b'"code":311,', b"null", b"{}", b"[1]",
    b"1e5", b"12345678901234567890", b",", b":", b"\\", b'"i":"x",', b'"flag":1,', b'"version":99999999999,',
)  # fmt: skip


def plain(serialization: int) -> bytes:
    ext = send_ext("orders", "UNIQ_KEY\x01A\x02")
    return encode(Command(310, ext, b"body", opaque=7, serialization=serialization))[4:]


class Damage:
    """Damages frames, the same ones for a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        asked = [recorded.frame[4:] for recorded in recorded_frames() if recorded.kind == "request"]
        json_sends = [frame for frame in asked if frame.startswith(b'{"code":310,', 4)]
        binary_sends = [frame for frame in asked if frame[0] == BINARY and frame[4:6] == SEND]
        self.binary = [*binary_sends, plain(BINARY)]
        self._kinds = (asked, [*json_sends, plain(JSON)], self.binary, [framed(PLAIN)])

    def next(self) -> bytes:
        """One more damaged frame; its header's length is mended more often than not."""
        pick = self._random
        frame = bytearray(pick.choice(pick.choice(self._kinds)))
        for _ in range(pick.choice((1, 1, 1, 2, 3, 6))):
            self._strike(frame)
        if pick.random() < 0.6 and len(frame) >= 8:
            frame[1:4] = (len(frame) - 4 - pick.choice((0, 4))).to_bytes(3, "big")
        return bytes(frame)

    def _strike(self, frame: bytearray) -> None:
        pick = self._random
        if not frame:
            frame.append(0)
        at, token = pick.randrange(len(frame)), pick.choice(TOKENS)
        how = pick.randrange(7)
        if how == 0:
            frame[at] = pick.randrange(256)
        elif how == 1:
            frame[at] ^= 1 << pick.randrange(8)
        elif how == 2:
            del frame[at:]
        elif how == 3:
            del frame[at : at + pick.randrange(1, 8)]
        elif how == 4:
            frame[at:at] = token
        elif how == 5:
            other = pick.randrange(len(frame))
            frame[at:at] = frame[other : other + pick.randrange(1, 40)]
        else:
            frame[at : at + len(token)] = token


def long_send(frame: bytes) -> object:
    """What the long way makes of a send; of what is no plain one, something that no short way says."""
    try:
        command = decode(frame)
        header = read_send_header(command.ext)
    except (BadFrame, RequestRefused) as refused:
        return repr(refused)
    is_plain = not header.reconsume_times and header.most_reconsume_times is None
    if command.code not in (310, 320) or command.is_response or command.remark is not None or not is_plain:
        return "not a plain send"
    return (
        command.opaque, command.flag, header.topic, header.queue_id, header.sys_flag, header.born_ms, header.flag,
        header.properties, command.body, header.is_batch or command.code == 320,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_frame_is_read_or_refused_and_the_short_ways_agree(seed: int) -> None:
    damage, sends, endings = Damage(seed), SendShortcut(), EndShortcut()
    for frame in damage.binary:
        sends.learn(frame, decode(frame), read_send_header(decode(frame).ext))
    endings.learn(framed(PLAIN), decode(framed(PLAIN)))
    short = 0
    for _ in range(4_000):
        frame = damage.next()
        try:
            encode(command := decode(frame))
            if frame[0] == BINARY and frame[4:6] == SEND:
                sends.learn(frame, command, read_send_header(command.ext))
        except (BadFrame, RequestRefused):
            pass
        read = sends.read(frame) if frame[:1] == b"\x01" and frame[4:6] == SEND else read_json_send(frame or b"\xff")
        if read is not None:
            assert read == long_send(frame), frame
            short += 1
        if frame[4:6] == END and (ending := endings.read(frame)) is not None:
            assert not decode(frame).is_response, frame
            assert ending == long_way(frame), frame
            short += 1
    assert short > 20, "hardly anything went the short way: the damage says nothing"


@pytest.mark.parametrize("size", range(5, 60))
def test_a_send_that_ends_anywhere_behind_its_beginning_is_left_to_the_long_way(size: int) -> None:
    sends, frame = SendShortcut(), plain(BINARY)
    sends.learn(frame, decode(frame), read_send_header(decode(frame).ext))
    prefix_end = frame.index(b"\0\x01e\0\0\0") + 6
    assert sends.read(frame[: prefix_end + size - 5]) is None


async def test_a_send_that_ends_behind_what_was_learned_costs_nobody_an_answer(service: BrokerService) -> None:
    known = encode(Command(310, send_ext("T", "UNIQ_KEY\x01A\x02"), b"b", opaque=1, serialization=BINARY))
    whole = known[4:]
    cut = whole[: whole.index(b"\0\x01e\0\0\0") + 6]
    async with stranger_at(service.address) as stranger:
        for _ in range(2):
            await stranger.say(known)
            assert (await stranger.hear()) is not None
        ask = encode(Command(Request.GET_BROKER_CONFIG, opaque=6))
        await stranger.say(ask + len(cut).to_bytes(4, "big") + cut + ask)
        answer = await stranger.hear()
        assert answer is not None
        assert (answer.opaque, answer.code) == (6, 0)


async def test_damaged_frames_end_no_other_connection(service: BrokerService, peer: Peer) -> None:
    damage = Damage(99)
    assert (await peer.send("T")).code == 0
    for _ in range(60):
        async with stranger_at(service.address) as stranger:
            frames = [damage.next() for _ in range(20)]
            await stranger.say(b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames))
    assert (await peer.send("T")).code == 0
    assert service.engine.health().state == "OK"
