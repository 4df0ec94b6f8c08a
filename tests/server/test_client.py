"""The asking end: answers matched, connections made and lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from broker.client.remoting import RemotingClient
from broker.rocketmq.errors import ConnectFailed, ConnectionLost, RequestTimedOut
from broker.rocketmq.frame import Command, FrameBuffer, decode, encode

Reply = Callable[[Command], bytes | None]


class Partner:
    """A server that answers as the test says; None hangs up."""

    def __init__(self) -> None:
        self.reply: Reply = lambda request: encode(request.answer(request.ext, request.body))
        self.connections = 0
        self.heard: asyncio.Queue[Command] = asyncio.Queue()
        self.address = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        frames = FrameBuffer()
        while data := await reader.read(4096):
            for frame in frames.feed(data):
                command = decode(frame)
                self.heard.put_nowait(command)
                answer = self.reply(command)
                if answer is None:
                    writer.close()
                    return
                writer.write(answer)
        writer.close()


@pytest.fixture
async def partner() -> AsyncIterator[Partner]:
    other = Partner()
    server = await asyncio.start_server(other.serve, "127.0.0.1", 0)
    other.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield other
    server.close()


@pytest.fixture
async def client() -> AsyncIterator[RemotingClient]:
    asking = RemotingClient()
    yield asking
    await asking.close()


async def test_answers_find_their_requests_whatever_their_order(partner: Partner, client: RemotingClient) -> None:
    held: list[Command] = []

    def in_reverse(request: Command) -> bytes:
        held.append(request)
        if len(held) < 10:
            return b""
        return b"".join(encode(one.answer(one.ext)) for one in reversed(held))

    partner.reply = in_reverse
    answers = await asyncio.gather(*(client.invoke(partner.address, 1, {"n": str(n)}) for n in range(10)))
    assert [answer.ext["n"] for answer in answers] == [str(n) for n in range(10)]
    assert partner.connections == 1


async def test_no_answer_in_time_is_an_error_and_the_late_answer_is_dropped(
    partner: Partner, client: RemotingClient
) -> None:
    partner.reply = lambda request: b""
    with pytest.raises(RequestTimedOut, match="request 9 within 20 ms"):
        await client.invoke(partner.address, 9, timeout_ms=20)
    late = (await partner.heard.get()).answer()
    partner.reply = lambda request: encode(late) + encode(request.answer({"right": "one"}))
    assert (await client.invoke(partner.address, 9)).ext == {"right": "one"}


async def test_nobody_there_is_an_error(client: RemotingClient, free_port: int) -> None:
    with pytest.raises(ConnectFailed):
        await client.invoke(f"127.0.0.1:{free_port}", 1)


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:x", "127.0.0.1:99999", ""])
async def test_an_address_that_is_none_is_an_error(client: RemotingClient, address: str) -> None:
    with pytest.raises(ConnectFailed):
        await client.invoke(address, 1)


async def test_a_lost_connection_is_told_and_made_anew(partner: Partner, client: RemotingClient) -> None:
    lost: list[str] = []
    client.on_lost(lost.append)
    partner.reply = lambda request: None
    with pytest.raises(ConnectionLost):
        await client.invoke(partner.address, 1)
    assert lost == [partner.address]
    partner.reply = lambda request: encode(request.answer())
    assert (await client.invoke(partner.address, 1)).code == 0
    assert partner.connections == 2


async def test_what_is_no_frame_ends_the_connection(partner: Partner, client: RemotingClient) -> None:
    partner.reply = lambda request: b"\x7f\xff\xff\xff"
    with pytest.raises(ConnectionLost):
        await client.invoke(partner.address, 1)


async def test_pushed_requests_reach_their_handler_and_are_answered(partner: Partner, client: RemotingClient) -> None:
    client.register(220, lambda address, request: request.answer({"from": address}))
    push = Command(220, {"a": "b"}, opaque=77)
    unknown = Command(221, opaque=78)
    partner.reply = lambda request: (
        b"" if request.is_response else encode(push) + encode(unknown) + encode(request.answer())
    )
    await client.invoke(partner.address, 1)
    heard = [await asyncio.wait_for(partner.heard.get(), 5) for _ in range(3)][1:]
    assert [(command.opaque, command.code, command.is_response) for command in heard] == [(77, 0, True), (78, 3, True)]
    assert heard[0].ext == {"from": partner.address}


async def test_answers_that_come_later_are_sent_then_and_failures_are_said(
    partner: Partner, client: RemotingClient
) -> None:
    later: list[asyncio.Future[Command]] = []

    def take(_: str, request: Command) -> asyncio.Future[Command]:
        later.append(asyncio.get_running_loop().create_future())
        return later[-1]

    client.register(309, take)
    pushed = [Command(309, opaque=number) for number in (7, 8, 9)]
    partner.reply = lambda request: (
        b"" if request.is_response else b"".join(map(encode, pushed)) + encode(request.answer())
    )
    await client.invoke(partner.address, 1)
    await asyncio.wait_for(partner.heard.get(), 5)
    later[2].cancel()
    later[1].set_exception(ValueError("no"))
    later[0].set_result(pushed[0].answer(body=b"done"))
    heard = [await asyncio.wait_for(partner.heard.get(), 5) for _ in range(2)]
    assert {(command.opaque, command.code, command.body) for command in heard} == {(7, 0, b"done"), (8, 1, b"")}


async def test_oneway_requests_say_so(partner: Partner, client: RemotingClient) -> None:
    partner.reply = lambda request: b""
    await client.oneway(partner.address, 15, {"a": "b"}, b"body")
    heard = await asyncio.wait_for(partner.heard.get(), 5)
    assert (heard.is_oneway, heard.ext, heard.body) == (True, {"a": "b"}, b"body")


async def test_closing_ends_those_who_wait(partner: Partner, client: RemotingClient) -> None:
    partner.reply = lambda request: b""
    waiting = asyncio.ensure_future(client.invoke(partner.address, 1))
    await partner.heard.get()
    await client.close()
    with pytest.raises(ConnectionLost):
        await waiting
    with pytest.raises(ConnectionLost):
        await client.invoke(partner.address, 1)
