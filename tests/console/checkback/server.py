"""An HTTP server that says what a test wants it to, and counts who came."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Self

from console.features.checkback.request import sign_answer


@dataclass(frozen=True)
class Question:
    """A request that arrived; names of headers in small letters."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def asked(self) -> dict[str, Any]:
        """The body as JSON."""
        found: dict[str, Any] = json.loads(self.body)
        return found


Speech = Callable[[Question], Awaitable[bytes]]


class Server:
    """Listens from entry to exit, on `host`; `speak` gives the bytes of each answer."""

    def __init__(
        self, speak: Speech, host: str = "127.0.0.2", port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.speak = speak
        self.host, self.port = host, port
        self.connections = 0
        self.questions: list[Question] = []
        self._tls = tls

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self.host, self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *failure: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            line, *rest = head.strip().split("\r\n")
            headers = {name.lower(): text.strip() for name, _, text in (each.partition(":") for each in rest)}
            question = Question(line, headers, await reader.readexactly(int(headers["content-length"])))
            self.questions.append(question)
            writer.write(await self.speak(question))
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def http(body: bytes, *, status: str = "200 OK", kind: str = "application/json", **headers: str) -> bytes:
    """An answer as it goes over the wire."""
    named = {"Content-Type": kind, "Content-Length": str(len(body))} | {
        name.replace("_", "-"): text for name, text in headers.items()
    }
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {text}" for name, text in named.items()), "", ""]
    return "\r\n".join(lines).encode() + body


def decided(question: Question, secret: str, decision: str) -> bytes:
    """A proper answer."""
    body = json.dumps({"decision": decision}).encode()
    signature = sign_answer(secret, question.headers["escapement-nonce"], body)
    return http(body, Escapement_Signature=signature)


def always(answer: bytes) -> Speech:
    """The same for everybody."""

    async def speak(question: Question) -> bytes:
        return answer

    return speak
