"""The other end of a pull: queues of records at an address, given out in any way that a broker may.

It says what it is told to say, in frames as a broker writes them: few messages an answer, answers in another order than
the questions, connections that end, offsets that are gone.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command, FrameBuffer, decode, encode
from tests.spark.logs import record


def queue_of(topic: str, queue_id: int, count: int, start: int = 0, **more: int) -> dict[int, bytes]:
    """Records of one queue, by offset, as their broker wrote them."""
    return {
        offset: record(
            offset * 1_000 + queue_id, topic, b"%d" % offset, {"TAGS": "ab"[offset % 2]},
            queue_id=queue_id, queue_offset=offset, **more,
        )
        for offset in range(start, start + count)
    }  # fmt: skip


Look = Callable[[int, Command], Command | None]


@dataclass(slots=True)
class Pullable:
    """A broker that gives out queues; a context manager.

    ``each``: messages an answer. ``turned``: so many answers wait for one another and leave in the opposite order.
    ``hangs_up``: after these answers the connection ends, one number a connection. ``look``: may answer first, by the
    number of the pull.
    """

    queues: dict[tuple[str, int], dict[int, bytes]]
    each: int = 32
    turned: int = 1
    hangs_up: list[int] = field(default_factory=list)
    look: Look = lambda _number, _request: None
    asked: list[dict[str, str]] = field(default_factory=list)
    address: str = ""
    _server: socket.socket | None = None

    def __enter__(self) -> Self:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, args=(self._server,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self, server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                ends = self.hangs_up.pop(0) if self.hangs_up else -1
                threading.Thread(target=self._serve, args=(connection, ends), daemon=True).start()

    def _serve(self, connection: socket.socket, ends: int) -> None:
        frames, said = FrameBuffer(), 0
        with connection, suppress(OSError):
            while chunk := connection.recv(1 << 16):
                answers = [self._answer(decode(frame)) for frame in frames.feed(chunk)]
                while answers:
                    part, answers = answers[: self.turned], answers[self.turned :]
                    for answer in reversed(part):
                        if said == ends:
                            return
                        connection.sendall(encode(answer))
                        said += 1

    def _answer(self, request: Command) -> Command:
        assert request.code == Request.PULL_MESSAGE
        self.asked.append(request.ext)
        return self.look(len(self.asked), request) or self._pulled(request)

    def _pulled(self, request: Command) -> Command:
        ext = request.ext
        records = self.queues[ext["topic"], int(ext["queueId"])]
        first, end, offset = min(records), max(records) + 1, int(ext["queueOffset"])
        if offset < first:
            return request.answer({"nextBeginOffset": str(first)}, code=Answer.PULL_OFFSET_MOVED)
        if offset >= end:
            moved = offset > end
            code = Answer.PULL_OFFSET_MOVED if moved else Answer.PULL_NOT_FOUND
            return request.answer({"nextBeginOffset": str(end)}, code=code)
        found: list[bytes] = []
        most = min(self.each, int(ext["maxMsgNums"]))
        while offset < end and len(found) < most:
            if ext["subscription"] in ("*", "ab"[offset % 2]) and offset in records:
                found.append(records[offset])
            offset += 1
        code = Answer.SUCCESS if found else Answer.PULL_RETRY_IMMEDIATELY
        return request.answer({"nextBeginOffset": str(offset)}, b"".join(found), code=code)
