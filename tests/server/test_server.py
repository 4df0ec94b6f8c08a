"""Connections: slow ones, silent ones, those that do not read; what they cost others."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from broker.rocketmq.codes import Answer
from broker.rocketmq.frame import BINARY, Command, encode
from broker.server.connection import MOST_MS_A_TURN, Connection, Handler, Hooks, Limits, Server
from tests.server.stranger import Stranger, stranger_at

ECHO = 7
LARGE = 8
SLOW = 9
LARGE_BYTES = 1 << 20


class Clock:
    """Time as the test says."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


class Doorman:
    """A server with two requests of its own, and its address."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.asked = 0
        self.more: dict[str, str] = {}
        self.longest_backlog = 0
        self.closed: list[str] = []
        self.slow: Handler = self._echo
        handlers: dict[int, Handler] = {
            ECHO: self._echo, LARGE: self._large, SLOW: lambda connection, request: self.slow(connection, request)
        }  # fmt: skip
        hooks = Hooks(after_read=self._measure, closed=(lambda connection: self.closed.append(connection.address),))
        self.server = Server("door", handlers, self.clock, Limits(), hooks)
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        self.address = f"127.0.0.1:{listening.getsockname()[1]}"
        self.listening = listening

    def _measure(self) -> None:
        backlogs = [len(connection._backlog) for connection in self.server.connections]
        self.longest_backlog = max([self.longest_backlog, *backlogs])

    def _echo(self, _: Connection, request: Command) -> Command:
        self.asked += 1
        return request.answer(request.ext | self.more, request.body)

    def _large(self, _: Connection, request: Command) -> Command:
        self.asked += 1
        return request.answer(body=b"x" * LARGE_BYTES)


@pytest.fixture
async def door() -> AsyncIterator[Doorman]:
    doorman = Doorman()
    await doorman.server.start(doorman.listening)
    yield doorman
    doorman.server.stop_accepting()
    doorman.server.abort_connections()


async def greet(stranger: Stranger, opaque: int = 1) -> None:
    await stranger.say(encode(Command(ECHO, opaque=opaque)))
    answer = await stranger.hear()
    assert answer is not None
    assert answer.opaque == opaque


async def test_a_frame_begun_too_long_ago_closes_its_connection_alone(door: Doorman) -> None:
    async with stranger_at(door.address) as slow, stranger_at(door.address) as quick:
        await greet(slow)
        frame = encode(Command(ECHO, {"a": "b" * 100}))
        for start in (0, 20, 40):
            door.clock.now_ms += 10_000
            await slow.say(frame[start : start + 20])
            await greet(quick)
            door.server.sweep(door.clock.now_ms)
        assert len(door.server.connections) == 2
        door.clock.now_ms += 10_000
        door.server.sweep(door.clock.now_ms)
        assert await slow.is_closed()
        await greet(quick)


async def test_a_slow_frame_that_becomes_whole_in_time_is_answered(door: Doorman) -> None:
    async with stranger_at(door.address) as slow:
        frame = encode(Command(ECHO, opaque=9))
        await slow.say(frame[:10])
        door.clock.now_ms += 29_000
        door.server.sweep(door.clock.now_ms)
        await slow.say(frame[10:])
        answer = await slow.hear()
        assert answer is not None
        assert answer.opaque == 9


async def test_a_connection_that_says_nothing_is_closed_after_the_idle_time(door: Doorman) -> None:
    async with stranger_at(door.address) as silent:
        await greet(silent)
        door.clock.now_ms += 119_999
        door.server.sweep(door.clock.now_ms)
        await greet(silent)
        door.clock.now_ms += 120_000
        door.server.sweep(door.clock.now_ms)
        assert await silent.is_closed()
    assert len(door.closed) == 1


async def test_one_that_does_not_read_its_answers_is_not_read_from(door: Doorman) -> None:
    async with stranger_at(door.address) as greedy, stranger_at(door.address) as other:
        wanted = 200
        await greedy.say(b"".join(encode(Command(LARGE, opaque=number)) for number in range(wanted)))
        await greet(other)
        assert 1 <= door.asked - 1 < 30
        heard = [await greedy.hear() for _ in range(wanted)]
        assert [answer.opaque for answer in heard if answer is not None] == list(range(wanted))
        assert door.asked == wanted + 1


async def test_all_requests_of_one_read_are_answered_in_order(door: Doorman) -> None:
    async with stranger_at(door.address) as stranger:
        await stranger.say(b"".join(encode(Command(ECHO, {"n": str(n)}, b"b" * n, opaque=n)) for n in range(300)))
        heard = [await stranger.hear() for _ in range(300)]
        assert [(answer.opaque, len(answer.body)) for answer in heard if answer is not None] == [
            (n, n) for n in range(300)
        ]


async def test_what_takes_long_to_answer_gives_others_their_turn(door: Doorman) -> None:
    """Each request takes a while: the second of one read waits until another client was heard."""
    order: list[str] = []

    def slow(_: Connection, request: Command) -> Command:
        order.append(request.ext["who"])
        door.clock.now_ms += MOST_MS_A_TURN
        return request.answer()

    door.slow = slow
    async with stranger_at(door.address) as one, stranger_at(door.address) as other:
        await greet(one)
        await greet(other)
        frames = [encode(Command(SLOW, {"who": who}, opaque=1)) for who in ("one", "other")]
        # both have come before the loop looks again
        one._writer.write(frames[0] * 20)
        other._writer.write(frames[1])
        for _ in range(20):
            assert await one.hear()
        assert await other.hear()
    assert order.count("one") == 20
    assert order.index("other") < 3


async def test_who_asks_what_takes_long_is_not_read_from_meanwhile(door: Doorman) -> None:
    def slow(_: Connection, request: Command) -> Command:
        door.clock.now_ms += MOST_MS_A_TURN
        return request.answer()

    door.slow = slow
    count, body = 200, b"x" * 30_000
    async with stranger_at(door.address) as one:
        one._writer.write(encode(Command(SLOW, body=body)) * count)
        for _ in range(count):
            assert await one.hear()
    assert 1 < door.longest_backlog < 20, "no more than one read brings"


async def test_a_oneway_request_and_a_stray_answer_are_not_answered(door: Doorman) -> None:
    async with stranger_at(door.address) as stranger:
        await stranger.say(encode(Command(ECHO, flag=2, opaque=1)) + encode(Command(ECHO, flag=1, opaque=2)))
        await greet(stranger, 3)


async def test_a_fault_in_one_handler_is_answered_and_the_connection_lives() -> None:
    def fails(_: Connection, request: Command) -> Command:
        raise ZeroDivisionError

    server = Server("door", {1: fails}, Clock(), Limits())
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    address = f"127.0.0.1:{listening.getsockname()[1]}"
    await server.start(listening)
    async with stranger_at(address) as stranger:
        for opaque in (1, 2):
            await stranger.say(encode(Command(1, opaque=opaque)))
            answer = await stranger.hear()
            assert answer is not None
            assert (answer.code, answer.opaque) == (1, opaque)
    server.stop_accepting()
    server.abort_connections()


async def test_no_more_is_read_than_is_handled_however_small_it_is(door: Doorman) -> None:
    wanted = 60_000
    async with stranger_at(door.address) as hasty:
        await hasty.say(encode(Command(ECHO, flag=2, serialization=BINARY)) * wanted)
        await greet(hasty)
    assert door.asked == wanted + 1
    assert door.longest_backlog < 20_000, "one read and a little more"


async def test_an_answer_whose_header_is_too_long_becomes_one_that_says_so(door: Doorman) -> None:
    door.more = {"a": "x" * (1 << 24)}
    async with stranger_at(door.address) as stranger:
        await stranger.say(encode(Command(ECHO, opaque=7)))
        answer = await stranger.hear()
        assert answer is not None
        assert (answer.opaque, answer.code) == (7, Answer.SYSTEM_ERROR)
        assert "header" in (answer.remark or "")
        door.more = {}
        await greet(stranger)


async def test_what_waits_for_those_who_do_not_read_is_bounded_in_sum(
    door: Doorman, caplog: pytest.LogCaptureFixture
) -> None:
    """Each may have some; together no more than the limit: who has kept it waiting longest is ended."""
    server = door.server
    server.unread.most_bytes = 6 * LARGE_BYTES
    asked = b"".join(encode(Command(LARGE, opaque=number)) for number in range(20))
    async with AsyncExitStack() as stack:
        greedy = [await stack.enter_async_context(stranger_at(door.address)) for _ in range(6)]
        other = await stack.enter_async_context(stranger_at(door.address))
        for stranger in greedy:
            await stranger.say(asked)
            await greet(other)
        assert sum(connection.unread_bytes() for connection in server.connections) <= server.unread.most_bytes
        assert server.unread.ended_total >= 3
        assert "its own waited longest" in caplog.text
        heard = [await greedy[-1].hear() for _ in range(20)]
        assert None not in heard, "the newest is served once it reads"
        await greet(other)
