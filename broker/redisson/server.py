"""The Redis or Valkey server behind a queue: one seam for commands and scripts, with types.

Takes redis-py's `Redis` and `RedisCluster`, or the like of them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.exceptions import NoScriptError, RedisClusterException, ResponseError
from redis.retry import Retry

from .errors import ClientUnfit, DifferentSlots, MemberUnreadable, WrongType
from .scripts import Script

_COMPLAINT = re.compile(r"ESCAPEMENTTYPE (\d+) (\S+) (\S+)")
#: How long one BLPOP waits, at most.
WAIT_TURN_S = 5.0
#: How long a listener is deaf to being stopped.
LISTEN_TURN_S = 0.5
Argument = bytes | str | int
#: What commands and scripts answer: bytes, whole numbers, None, and lists of them.
Answer = object


class RedisClient(Protocol):
    """The part of redis-py's clients that is used here."""

    def execute_command(self, *args: Argument) -> Answer:
        """Send a command and wait for its answer."""


class Server:
    """Runs commands and scripts; raises redis-py's own errors, and WrongType where a script complains of a key."""

    def __init__(self, client: RedisClient) -> None:
        self.client = client
        if decodes(client):
            raise ClientUnfit

    def close(self) -> None:
        """End all connections of the client."""
        close = getattr(self.client, "close", None)
        assert close is not None  # redis-py's clients have it
        close()

    def run(self, *command: Argument) -> Answer:
        """Run a command that may be sent again when its answer is lost."""
        return self.client.execute_command(*command)

    def run_once(self, *command: Argument) -> Answer:
        """Run a command that is never sent again: when its answer is lost, nobody knows whether it was done.

        redis-py's clients try again by themselves, which would offer twice and pop twice; not so over this way. A
        RedisCluster of the caller's own keeps the retries that it was made with.
        """
        client = self.client
        if not isinstance(client, redis.Redis) or client.connection is not None:
            return client.execute_command(*command)
        pool: Any = client.connection_pool
        connection = pool.get_connection()
        parse = cast("Callable[[Any, str], Answer]", client.parse_response)
        try:
            connection.send_command(*command)
            return parse(connection, str(command[0]))
        except BaseException as error:
            if not isinstance(error, ResponseError):
                connection.disconnect()  # its answer may still come, and is nobody's then
            raise
        finally:
            pool.release(connection)

    @property
    def wait_turn_s(self) -> float:
        """The longest wait of one blocking command: well below the socket's timeout, or what is popped then is lost."""
        pool = getattr(self.client, "connection_pool", None)
        timeout_s = getattr(pool, "connection_kwargs", {}).get("socket_timeout")
        return WAIT_TURN_S if timeout_s is None else min(WAIT_TURN_S, timeout_s / 2)

    def script(self, script: Script, keys: Sequence[bytes], arguments: Sequence[Argument] = ()) -> Answer:
        """Run a script, sent in full only to a server that does not have it."""
        rest = (str(len(keys)), *keys, *arguments)
        try:
            try:
                return self.run_once("EVALSHA", script.sha, *rest)
            except NoScriptError:
                return self.run_once("EVAL", script.text, *rest)
        except (ResponseError, RedisClusterException) as error:
            raise _clearer(error, keys) from error

    @contextmanager
    def subscribed(self, pattern: str) -> Iterator[Iterator[bytes | None]]:
        """Yield the channels of this pattern on which something is said, None now and then when nothing was.

        The pattern itself says that it is listened to from now on: redis-py connects and subscribes again by itself.

        Raises redis-py's errors when the connection is lost.
        """
        factory = getattr(self.client, "pubsub", None)
        assert factory is not None  # redis-py's clients have it
        subscription = factory()
        try:
            subscription.psubscribe(pattern)
            yield _channels(subscription)
        finally:
            subscription.close()

    def now_ms(self) -> tuple[int, float]:
        """Return the server's clock in epoch ms, and by how many ms this process's clock is ahead of it."""
        before = time.time()
        answer = self.run("TIME")
        here = (before + time.time()) / 2 * 1000
        # redis-py gives a pair of numbers; a cluster's client one for each node that it asked.
        pair = next(iter(answer.values())) if isinstance(answer, dict) else answer
        seconds, micros = (int(part) for part in cast("Sequence[int]", pair))
        server_ms = seconds * 1000 + micros / 1000
        return int(server_ms), here - server_ms


def decodes(client: RedisClient) -> bool:
    """Tell whether this client decodes answers to text; members are bytes that need not be text."""
    encoder = getattr(client, "get_encoder", lambda: None)()
    return bool(getattr(encoder, "decode_responses", False))


def connect(url: str, *, timeout_s: float = 10.0) -> redis.Redis | RedisCluster:
    """Return a client for `redis://`, `rediss://` (TLS), `unix://`, `redis+cluster://` or `rediss+cluster://`.

    User, password and database stand in the address; TLS options too, such as `?ssl_ca_certs=/path`.
    """
    options = {"socket_timeout": timeout_s, "socket_connect_timeout": min(timeout_s, 5.0), "health_check_interval": 15}
    scheme, _, rest = url.partition("://")
    if scheme.endswith("+cluster"):
        # No second attempt by itself: see `run_once`.
        once = Retry(NoBackoff(), 0)
        return RedisCluster.from_url(f"{scheme.removesuffix('+cluster')}://{rest}", retry=once, **options)
    return redis.Redis.from_url(url, **options)


def whole(answer: Answer) -> int:
    """Return a number of an answer, which a script may give as text."""
    return int(float(answer)) if isinstance(answer, bytes) else cast("int", answer)


def _channels(subscription: Any) -> Iterator[bytes | None]:
    while True:
        message = subscription.get_message(timeout=LISTEN_TURN_S)
        yield None if message is None else cast("bytes", message["channel"])


def _clearer(error: Exception, keys: Sequence[bytes]) -> Exception:
    text = str(error)
    found = _COMPLAINT.search(text)
    if found is not None:
        return WrongType(keys[int(found[1]) - 1].decode("utf-8", "replace"), found[2], found[3])
    if "ESCAPEMENTPOISON" in text:
        return MemberUnreadable(b"")
    if "CROSSSLOT" in text or "same key slot" in text:
        names = [key.decode("utf-8", "replace") for key in (keys[0], keys[-1])]
        return DifferentSlots(names[0], names[1])
    return error
