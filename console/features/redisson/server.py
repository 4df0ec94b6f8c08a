"""Asking the server of Redisson's delayed queues: one client for the process, its errors as evidence."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TypeVar
from urllib.parse import urlsplit

from django.conf import settings
from redis.exceptions import RedisError

from broker.redisson import Codec, DelayedQueue, RedissonError, codec_named
from broker.redisson.server import Server, connect
from console.site.clock import now_ms
from console.site.evidence import Evidence, StaleReason

Answer = TypeVar("Answer")
#: a page does not wait longer for Redis
PATIENCE_S = 3.0


@lru_cache(maxsize=4)
def _server(url: str) -> Server:
    return Server(connect(url, timeout_s=PATIENCE_S))


def server() -> Server:
    """The server at ESCAPEMENT_REDISSON_URL; safe for threads."""
    return _server(settings.REDISSON_URL)


def status_server() -> Server:
    """The server at REDIS_URL, where transfer services say how they are: also when that of the queues is away."""
    return _server(settings.REDIS_URL)


def hang_up() -> None:
    """Forget the clients; the next question makes a new one."""
    _server.cache_clear()


def address() -> str:
    """Where the server is, without user and password."""
    parts = urlsplit(settings.REDISSON_URL)
    return f"{parts.hostname or parts.path}:{parts.port}" if parts.port else parts.hostname or parts.path


def queue_named(name: str, *, codec: str = "", to_write: bool = False) -> DelayedQueue:
    """The queue of this name; read-only unless it is to be written, and may be."""
    chosen: Codec | None = codec_named(codec) if codec else None
    locked = bool(why_locked(name)) or not to_write
    return DelayedQueue(name, server().client, codec=chosen, read_only=locked)


def why_locked(name: str) -> str:
    """Why a queue may not be changed here: a code, empty if it may."""
    if settings.REDISSON_READ_ONLY:
        return "read-only"
    return "" if any(fnmatchcase(name, pattern) for pattern in settings.REDISSON_QUEUES) else "not-listed"


def ask_redis(question: Callable[[], Answer]) -> tuple[Answer | None, Evidence]:
    """The answer with its evidence; None and the reason when the server is away or refuses."""
    source = address()
    try:
        answer = question()
    except RedissonError as error:
        return None, Evidence(source, None, True, StaleReason.REDIS_REFUSED, (), str(error))
    except (RedisError, OSError) as error:
        return None, Evidence(source, None, True, StaleReason.REDIS_UNREACHABLE, (), str(error))
    return answer, Evidence(source, now_ms(), True)
