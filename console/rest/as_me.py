"""REST by whoever is signed in: a request from the reference's form, run with the person's own rights.

It runs in a loop of its own, in a thread that begins with the first request: a page waits for its answer. The route's
own code answers, as it does to a token; what the person may do is in the grant (`console.rest.person`).
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlencode

from django.conf import settings
from django.core import signing
from starlette.requests import Request
from starlette.responses import Response

from broker.client import ClientError
from console.operations.actor import SEND_MESSAGES
from console.operations.workflow import PREVIEW_LASTS, needs_second_person
from console.rest.app import ROOT, StateHolder
from console.rest.errors import RequestError, TooManyRequests
from console.rest.idempotency import HEADER
from console.rest.person import PersonGrant
from console.rest.reference import OWN_FIELDS
from console.rest.responses import problem_answer
from console.rest.route import Route

logger = logging.getLogger(__name__)

#: the longest that a route waits by itself is half a minute, for messages
PATIENCE_S = 40.0
#: requests at the same time; each holds a thread of the pages
TOGETHER = 4
#: the kind of its entries in the audit
KIND = "rest.as_me"
_SALT = "console.rest.as_me"
#: headers of an answer that say something to whoever reads it
HEADERS_SHOWN = ("content-type", "location", "retry-after", "idempotency-replayed", "allow")


class NoAnswer(Exception):
    """The request was not answered in time; whether it was carried out is not known."""


class DoneBefore(Exception):
    """It was run already: the form was sent twice."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to a route: parameters of its path and query by name, and its body as JSON has it."""

    route: Route
    named: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    key: str = ""

    @property
    def address(self) -> str:
        """Return what stands behind /api/v1/, as it is sent."""
        path = self.route.path
        for name, value in self.named.items():
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        asked = urlencode(self.query)
        return path.removeprefix("/") + (f"?{asked}" if asked else "")

    @property
    def previews(self) -> bool:
        """Tell whether the route can say what it would touch."""
        return self.route.is_change and "preview" in (*_names_of_body(self.route), *_names_of_query(self.route))

    def as_preview(self) -> Asked:
        """Return the same as a question what it would touch."""
        return self._with({"preview": True}, {"preview": "true"})

    def because(self, reason: str) -> Asked:
        """Return the same with the reason, where the route takes one."""
        return self._with({"reason": reason}, {"reason": reason})

    def _with(self, of_body: Mapping[str, Any], of_query: Mapping[str, str]) -> Asked:
        body, query = self.body, self.query
        if isinstance(body, dict) and set(of_body) <= set(_names_of_body(self.route)):
            body = {**body, **of_body}
        elif set(of_query) <= set(_names_of_query(self.route)):
            query = {**query, **of_query}
        return Asked(self.route, self.named, query, body, self.key)

    @property
    def bare(self) -> Asked:
        """Return the same without reason and without the wish to look first, which the form has for itself."""
        query = {name: text for name, text in self.query.items() if name not in OWN_FIELDS}
        body = self.body
        if isinstance(body, dict):
            taken = OWN_FIELDS & set(_names_of_body(self.route))
            body = {name: value for name, value in body.items() if name not in taken}
        return Asked(self.route, self.named, query, body, self.key)

    def seen_by(self, user_id: int, number: str) -> str:
        """Return a mark that this person looked at just this now; `number` is for one doing."""
        return signing.dumps([self._digest(), user_id, number], salt=_SALT)

    def number_of(self, mark: str, user_id: int) -> str | None:
        """Return the number of a mark that was made for just this and this person lately; None for any other."""
        try:
            found = signing.loads(mark, salt=_SALT, max_age=PREVIEW_LASTS)
        except signing.BadSignature:
            return None
        return str(found[2]) if found[:2] == [self._digest(), user_id] else None

    def _digest(self) -> str:
        bare = self.bare
        told = [self.route.name, dict(self.named), dict(bare.query), bare.body, self.key]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _names_of_body(route: Route) -> tuple[str, ...]:
    return () if route.body is None else route.body.__struct_encode_fields__


def _names_of_query(route: Route) -> tuple[str, ...]:
    return tuple(each.name for each in route.parameters)


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer: its status, the headers that say something, and its body."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def needs_second(asked: Asked) -> bool:
    """Tell whether a second person has to approve what is sent: by REST a send asks nobody, so that it is refused."""
    if asked.route.permission != SEND_MESSAGES:
        return False
    several = asked.body.get("messages") if isinstance(asked.body, dict) else None
    count = len(several) if isinstance(several, list) else 1
    return needs_second_person("messages.send", {"count": count})


class Door:
    """The loop that answers people, with what its requests share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._room = threading.BoundedSemaphore(TOGETHER)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._holder: StateHolder | None = None

    def ask(self, asked: Asked, grant: PersonGrant, number: str = "") -> Answered:
        """Return the route's answer to this person; with a `number` it is run once. Raises NoAnswer, DoneBefore."""
        if not self._room.acquire(blocking=False):
            return _told(problem_answer(TooManyRequests("Others are waiting for answers here: try again.")))
        try:
            loop, holder = self._begun()
            # nothing of the page's own (who looks, which broker, which language) goes along
            begun = contextvars.Context().run(
                asyncio.run_coroutine_threadsafe, _answer(asked, grant, holder, number), loop
            )
            try:
                return begun.result(PATIENCE_S)
            except TimeoutError:
                begun.cancel()
                raise NoAnswer from None
        finally:
            self._room.release()

    def _begun(self) -> tuple[asyncio.AbstractEventLoop, StateHolder]:
        with self._lock:
            if self._loop is None or self._holder is None:
                self._loop, self._holder = asyncio.new_event_loop(), StateHolder(settings.ESCAPEMENT_NAMESRV)
                self._thread = threading.Thread(target=self._loop.run_forever, name="rest-as-me", daemon=True)
                self._thread.start()
            return self._loop, self._holder

    def hang_up(self) -> None:
        """Close what it has open; the next request begins anew."""
        with self._lock:
            loop, holder, thread = self._loop, self._holder, self._thread
            self._loop = self._holder = self._thread = None
        if loop is None or holder is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(holder.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


_door = Door()
ask, hang_up = _door.ask, _door.hang_up


async def _answer(asked: Asked, grant: PersonGrant, holder: StateHolder, number: str) -> Answered:
    try:
        state = holder.get()
        if number and not await state.keys.take(grant.prefix, number):
            raise DoneBefore
        return _told(await asked.route.answer(_request(asked), grant, state))
    except (RequestError, ClientError) as error:
        return _told(problem_answer(error))
    except DoneBefore:
        raise
    except Exception as error:  # the last line, as for tokens: the answer is a problem, the log has the rest
        logger.exception("%s %s failed", asked.route.method, asked.route.path)
        return _told(problem_answer(error))


def _request(asked: Asked) -> Request:
    path, _, query = asked.address.partition("?")
    body = b"" if asked.body is None else json.dumps(asked.body, ensure_ascii=False).encode()
    headers = [(b"host", b"console"), (b"content-length", b"%d" % len(body))]
    if asked.body is not None:
        headers.append((b"content-type", b"application/json"))
    if asked.key:
        headers.append((HEADER.encode(), asked.key.encode("latin-1", "replace")))
    scope = {
        "type": "http",
        "method": asked.route.method,
        "path": unquote(f"{ROOT}/{path}"),
        "raw_path": f"{ROOT}/{path}".encode(),
        "query_string": query.encode(),
        "headers": headers,
        "path_params": dict(asked.named),
    }
    given = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        # the page stays until it has its answer
        return given.pop() if given else await asyncio.Future()

    return Request(scope, receive)


def _told(answer: Response) -> Answered:
    shown = tuple((name, answer.headers[name]) for name in HEADERS_SHOWN if name in answer.headers)
    return Answered(answer.status_code, shown, bytes(answer.body))
