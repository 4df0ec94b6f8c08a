"""The body of a request: bounded while it streams in, strict when it is decoded."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET
from starlette.requests import Request
from starlette.types import Receive

from .errors import (
    BodyTooLarge,
    BodyTooSlow,
    ContentEncoded,
    DuplicateName,
    NotJson,
    RequestError,
    SchemaViolated,
    TooDeep,
    WrongContentType,
)
from .outgoing import NewMessage, NewMessages

#: A body of 4 MiB in base64, and room for the rest.
MAX_SINGLE_BYTES = 6 * 1024 * 1024
MAX_BATCH_BYTES = 8 * 1024 * 1024
#: A whole body must arrive within this time.
BODY_TIMEOUT_S = 30.0

Decoded = TypeVar("Decoded")


def has_body(request: Request) -> bool:
    """Whether the request says that a body follows; asked where it may be left out."""
    headers = dict(request.scope["headers"])
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


async def read_body(request: Request, limit_bytes: int) -> bytes:
    """The whole body; raises before more than the limit is held in memory."""
    headers = dict(request.scope["headers"])
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise ContentEncoded
    content_type = headers.get(b"content-type", b"")
    if content_type != b"application/json":
        _check_content_type(content_type.decode("latin-1"))
    announced = headers.get(b"content-length")
    if announced is not None and announced.isdigit() and int(announced) > limit_bytes:
        raise _too_large(limit_bytes)
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await _received(request.receive, limit_bytes)
    except TimeoutError:
        raise BodyTooSlow from None


async def _received(receive: Receive, limit_bytes: int) -> bytes:
    """The body's parts, joined. Most bodies come in one part."""
    parts: list[bytes] = []
    size = 0
    while size <= limit_bytes:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise NotJson("The connection ended before the whole body came.")
        part: bytes = message.get("body", b"")
        size += len(part)
        if size <= limit_bytes and not message.get("more_body", False):
            return part if not parts else b"".join((*parts, part))
        if part:
            parts.append(part)
    raise _too_large(limit_bytes)


def _check_content_type(content_type: str) -> None:
    kind, *parameters = (part.strip().lower() for part in content_type.split(";"))
    charset = next((each.partition("=")[2].strip('"') for each in parameters if each.startswith("charset=")), "utf-8")
    if kind != "application/json" or charset not in ("utf-8", "utf8"):
        raise WrongContentType(f"The body is {content_type[:100]!r}; it must be application/json in UTF-8.")


def _too_large(limit_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"The request's body is larger than {limit_bytes:,} bytes.")


def decode(body: bytes, decoder: msgspec.json.Decoder[Decoded]) -> Decoded:
    """The value in `body`, of the decoder's type; raises RequestError.

    The schema is checked first, so that what is read a second time (for names that appear twice) is known to be flat.
    """
    try:
        decoded = decoder.decode(body)
        if _SPACED_NAME(body) is not None or body.count(b'":') != names_in(decoded):
            _each_name_once(body.decode())
    except RequestError:
        raise
    except msgspec.ValidationError as error:
        raise SchemaViolated(str(error)) from None
    except RecursionError:
        raise TooDeep from None
    except (msgspec.DecodeError, ValueError) as error:
        raise NotJson(f"The body is not JSON: {error}") from None
    return decoded


def names_in(value: object) -> int:
    """How many names the JSON of a decoded value must have had at least; as many `":` in it mean that none came twice.

    A name that was given its default's value, or text that holds `":`, only makes the numbers differ.
    """
    if isinstance(value, NewMessages):
        return 1 + sum(map(names_in, value.messages))
    if isinstance(value, NewMessage):
        count = (value.body is not UNSET) + (value.body_base64 is not UNSET) + (value.tag is not None)
        count += bool(value.keys) + bool(value.properties) + len(value.properties) + (value.group is not None)
        count += (value.deliver_at is not None) + (value.delay_ms is not None) + (value.schedule_key is not None)
        count += (value.on_conflict is not None) + value.reject_past
        return count + (value.delay_level != 0) + (value.durability != "sync")
    return -1


def _names_once(pairs: list[tuple[str, Any]]) -> None:
    seen = {name for name, _ in pairs}
    if len(seen) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DuplicateName(f"The name {twice[:100]!r} appears twice.")


#: a name that ends otherwise than in `":`
_SPACED_NAME = re.compile(rb'"\s+:').search
_each_name_once = json.JSONDecoder(object_pairs_hook=_names_once).decode
