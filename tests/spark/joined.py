"""Several brokers behind one name server: it asks that of each and puts the answers together."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Self

from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command, FrameBuffer, decode, encode
from spark.asking import Access, Link

_JOINED = {
    Request.GET_ROUTEINFO_BY_TOPIC: ("brokerDatas", "queueDatas"),
    Request.GET_BROKER_CLUSTER_INFO: ("brokerAddrTable",),
    Request.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: ("topicList",),
}


class JoinedNames:
    """A name server that knows what some others know; a context manager. It remembers what it was told."""

    def __init__(self, others: Sequence[str]) -> None:
        self.others = list(others)
        self._known: dict[tuple[str, str], dict[str, Any]] = {}
        self._open: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.namesrv = f"127.0.0.1:{self._server.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._server, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._open.append(self._server.accept()[0])
                threading.Thread(target=self._serve, args=(self._open[-1],), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        frames = FrameBuffer()
        with connection, suppress(OSError):
            while chunk := connection.recv(1 << 16):
                for frame in frames.feed(chunk):
                    connection.sendall(encode(self._answer(decode(frame))))

    def _answer(self, request: Command) -> Command:
        found: list[dict[str, Any]] = []
        for other in self.others:
            known = (other, f"{request.code} {sorted(request.ext.items())}")
            with suppress(Exception), Link(other, Access()) as link:
                answer = link.ask(Request(request.code), request.ext)
                if answer.code == Answer.SUCCESS:
                    self._known[known] = json.loads(answer.body)
            found += [self._known[known]] if known in self._known else []
        if not found:
            return request.answer(code=Answer.TOPIC_NOT_EXIST, remark="nobody knows it")
        whole = found[0]
        for part in found[1:]:
            for name in _JOINED[Request(request.code)]:
                both = whole[name], part[name]
                whole = {**whole, name: {**both[0], **both[1]} if isinstance(both[0], dict) else [*both[0], *both[1]]}
        return request.answer(body=json.dumps(whole).encode())
