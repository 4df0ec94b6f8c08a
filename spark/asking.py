"""Asking brokers and name servers over RocketMQ's remoting protocol, synchronously: who reads for Spark has no event
loop, and nothing else to do meanwhile.

Many requests may be on their way at once; answers come in any order and are known by their number (opaque). Requests
are signed where a user is given, and a connection is made with TLS where that is wanted.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Self

from broker.rocketmq.acl import signed_fields
from broker.rocketmq.codes import PROTOCOL_VERSION, Answer, Request
from broker.rocketmq.errors import BadFrame
from broker.rocketmq.frame import Command, FrameBuffer, decode, encode

from .store import DashboardError

CONNECT_S = 3.0
ANSWER_S = 30.0
#: Questions that are on their way at once; what a socket takes without waiting holds as many.
AT_ONCE = 64
#: A pull may carry more than a request may.
MOST_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 20


class ClusterUnreachable(DashboardError):
    """A name server or a broker does not answer."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"{address} is not responding: {why}. Is it running there, and can this machine reach it?")
        self.address = address


class RequestDenied(DashboardError):
    """A name server or a broker answered that it does not do what it was asked."""

    def __init__(self, address: str, answer: Command) -> None:
        super().__init__(f"{address} refuses, code {answer.code}: {(answer.remark or 'no reason given')[:400]}")
        self.code = answer.code


@dataclass(frozen=True, slots=True)
class Access:
    """The user in whose name requests are signed, empty for none, and whether connections are made with TLS."""

    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    security_token: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_ca_file: str | None = None
    tls_verify: bool = True

    def fields(self, ext: dict[str, str]) -> dict[str, str]:
        """Return the header fields of a request without a body as they are sent."""
        if not self.access_key:
            return ext
        return signed_fields(
            ext, b"", version=PROTOCOL_VERSION, access_key=self.access_key, secret_key=self.secret_key,
            security_token=self.security_token,
        )  # fmt: skip

    def secured(self, plain: socket.socket, host: str) -> socket.socket:
        """Return the connection with TLS, if that is wanted. Raises OSError."""
        if not self.tls:
            return plain
        context = ssl.create_default_context(cafile=self.tls_ca_file)
        if not self.tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context.wrap_socket(plain, server_hostname=host)


class Link:
    """One connection. A context manager. Raises ClusterUnreachable whenever it does not hold."""

    def __init__(self, address: str, access: Access, *, answer_s: float = ANSWER_S) -> None:
        self.address = address
        self._access = access
        self._opaque = 0
        self._frames = FrameBuffer(MOST_BYTES)
        self._come: list[bytes] = []
        host, _, port = address.rpartition(":")
        try:
            plain = socket.create_connection((host.strip("[]"), int(port)), CONNECT_S)
            self._socket = access.secured(plain, host.strip("[]"))
            self._socket.settimeout(answer_s)
            if not access.tls:
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except (OSError, ValueError) as error:
            raise ClusterUnreachable(address, str(error)) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; what is on its way is dropped."""
        with suppress(OSError):
            self._socket.close()

    def send(self, requests: Sequence[tuple[int, dict[str, str]]]) -> range:
        """Send requests, given by code and fields, in one write; return their numbers."""
        first = self._opaque + 1
        frames = []
        for code, ext in requests:
            self._opaque += 1
            frames.append(encode(Command(code, self._access.fields(ext), opaque=self._opaque)))
        try:
            self._socket.sendall(b"".join(frames))
        except OSError as error:
            raise ClusterUnreachable(self.address, str(error)) from None
        return range(first, self._opaque + 1)

    def receive(self) -> Command:
        """Return the next answer, whichever it is; what a broker asks of its clients is passed over."""
        while True:
            while self._come:
                try:
                    answer = decode(self._come.pop())
                except BadFrame as error:
                    raise ClusterUnreachable(self.address, str(error)) from None
                if answer.is_response:
                    return answer
            self._come = self._next_frames()[::-1]

    def _next_frames(self) -> list[bytes]:
        try:
            chunk = self._socket.recv(_CHUNK_BYTES)
            if not chunk:
                raise ClusterUnreachable(self.address, "it closed the connection")
            return self._frames.feed(chunk)
        except TimeoutError:
            raise ClusterUnreachable(self.address, f"no answer within {ANSWER_S:.0f} s") from None
        except (OSError, BadFrame) as error:
            raise ClusterUnreachable(self.address, str(error)) from None

    def ask(self, code: Request, ext: dict[str, str] | None = None) -> Command:
        """Ask one question and return its answer, whatever its code."""
        return next(self.ask_many([(code, ext or {})]))

    def ask_many(self, requests: Iterable[tuple[int, dict[str, str]]]) -> Iterator[Command]:
        """Ask many questions, some at a time; yield the answers in the order of the questions."""
        left = iter(requests)
        while part := list(islice(left, AT_ONCE)):
            numbers = self.send(part)
            answers: dict[int, Command] = {}
            while len(answers) < len(numbers):
                answer = self.receive()
                if answer.opaque in numbers:
                    answers[answer.opaque] = answer
            yield from (answers[number] for number in numbers)


def checked(address: str, answer: Command) -> Command:
    """Return an answer that is none but success. Raises RequestDenied."""
    if answer.code != Answer.SUCCESS:
        raise RequestDenied(address, answer)
    return answer
