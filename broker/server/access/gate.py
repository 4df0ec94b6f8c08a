"""The gate before every handler: a request needs a valid signature, and its user everything that it asks for.

All that is refused is answered with NO_PERMISSION (16), as RocketMQ does. A client without a valid signature is not
told whether there is a user of that name. The first refusal of a connection is logged, further ones only in detail.

`Unauthenticated` are connections that have shown no valid signature yet: few an address, and not for long.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from hmac import compare_digest

from ...engine.disk import Files, join
from ...engine.engine import Engine
from ...engine.errors import BrokerError
from ...rocketmq.acl import (
    ACCESS_KEY,
    SECURITY_TOKEN,
    SIGNATURE,
    AccessConfig,
    Action,
    Address,
    Demand,
    Kind,
    User,
    address_of,
    content,
    decide,
    demand_on,
    is_signed,
    sign,
)
from ...rocketmq.codes import Answer
from ...rocketmq.errors import BadFrame, RequestRefused
from ...rocketmq.frame import Command
from ...rocketmq.message import decode
from ...rocketmq.properties import REAL_TOPIC
from ...rocketmq.sends import SignedSend
from ...rocketmq.topics import HALF_TOPIC, PARKED_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from ..connection import Connection
from .accounts import FILE_NAME, AccountTable
from .demands import OPEN_TO_USERS, Demands, TopicAt

logger = logging.getLogger(__name__)

MOST_DECISIONS = 20_000
"""Decisions that are remembered until something changes."""

_UNSIGNED = "This broker accepts signed requests only: give the client an access key and a secret key."
_WRONG = "check signature failed."


class Gate:
    """The check of signature and permission before every request."""

    def __init__(self, table: AccountTable, demands: Demands, *, open_to_all: Collection[int] = ()) -> None:
        self.table = table
        self._open_to_all = open_to_all
        self.unauthenticated = Unauthenticated()
        self._demands = demands
        self._decisions: dict[tuple[str, str, Demand], bool] = {}
        #: (user, host, topic) of plain sends that are allowed: looked up quicker than a demand
        self._senders: set[tuple[str, str, str]] = set()

    def admit(self, connection: Connection) -> bool:
        """Tell whether one more stranger may come from where this one comes from, and count it."""
        return self.unauthenticated.admit(connection)

    def forget(self, connection: Connection) -> None:
        """Count a connection that has ended no more."""
        self.unauthenticated.forget(connection)

    def check(self, connection: Connection, request: Command) -> None:
        """Return if the request may be carried out; raises RequestRefused."""
        if request.code in self._open_to_all and ACCESS_KEY not in request.ext:
            return
        try:
            user = self._user(connection, request)
            if not user.is_super:
                for demand in self._demands.of(request):
                    self._require(connection, user, demand)
        except RequestRefused as refusal:
            level = connection.refusal_level()
            logger.log(level, "refused request %d of %s: %s", request.code, connection.address, refusal)
            raise

    def vouch(self, request: Command) -> bool:
        """Tell whether a long request of one who has not signed yet, of which only the header is there, names a user
        that is. Raises BadFrame if it carries no signature: it need not be read to be refused."""
        name = request.ext.get(ACCESS_KEY)
        if not name or not request.ext.get(SIGNATURE):
            raise BadFrame("a long frame without a signature")
        user = self.table.user(name)
        # if there is none, he is told when all has come, as one whose signature is wrong (incoming.py)
        return user is not None and user.is_enabled

    def _user(self, connection: Connection, request: Command) -> User:
        ext = request.ext
        name = ext.get(ACCESS_KEY)
        if not name:
            raise RequestRefused(Answer.NO_PERMISSION, _UNSIGNED)
        user = self.table.user(name)
        # checked even where there is no user, so that the time taken does not tell
        secret = user.secret if user is not None else "no such user"
        signed, signature = content(ext, request.body, request.version), ext.get(SIGNATURE, "")
        is_valid = is_signed(secret.encode("utf-8", "surrogateescape"), signed, signature)
        if not is_valid and user is not None and (older := user.older(connection.server.clock())):
            is_valid = is_signed(older.encode("utf-8", "surrogateescape"), signed, signature)
        if user is None or not is_valid:
            raise RequestRefused(Answer.NO_PERMISSION, _WRONG)
        if not user.is_enabled:
            raise RequestRefused(Answer.NO_PERMISSION, f"User:{name} is disabled.")
        if connection.user != name:
            connection.identify(name)
            self.unauthenticated.forget(connection)
        for field in (ACCESS_KEY, SIGNATURE, SECURITY_TOKEN):
            ext.pop(field, None)  # some requests are handed on to other clients
        return user

    def passes(self, connection: Connection, signed: SignedSend) -> bool:
        """Tell whether a plain send of one who has signed before may be carried out at once. What may not goes the long
        way: `check` refuses it and says why."""
        user = self.table.user(signed.user)
        if user is None or not user.is_enabled or connection.user != user.name:
            return False
        secret = user.secret.encode("utf-8", "surrogateescape")
        # who signs with the secret before the present one goes the long way, where that is asked for
        if not compare_digest(sign(secret, signed.content), signed.signature):
            return False
        return user.is_super or self._is_sender(user.name, connection.host, signed.send[2])

    def _is_sender(self, name: str, host: str, topic: str) -> bool:
        """Tell whether a Normal user may send to a topic from there (`demands.FIELDS` of 310)."""
        key = (name, host, topic)
        if key in self._senders:
            return True
        if not self.allows(name, host, demand_on(Kind.TOPIC, topic, (Action.PUB,))):
            return False
        if len(self._senders) >= MOST_DECISIONS:
            self._senders.clear()
        self._senders.add(key)
        return True

    def _require(self, connection: Connection, user: User, demand: Demand) -> None:
        if not self.allows(user.name, connection.host, demand):
            wanted = " or ".join(demand.actions)
            raise RequestRefused(
                Answer.NO_PERMISSION,
                f"User:{user.name} has no permission to access {demand} ({wanted}) from {connection.host}.",
            )

    def may_send(self, connection: Connection, topic: str) -> bool:
        """Tell whether who is at the other end may send to a topic: then he may see its half messages, too."""
        user = self.table.user(connection.user)
        if user is None or not user.is_enabled:
            return False
        return user.is_super or self.allows(user.name, connection.host, Demand(Kind.TOPIC, topic, (Action.PUB,)))

    def allows(self, name: str, host: str, demand: Demand) -> bool:
        """Tell whether a Normal user may do this from there."""
        key = (name, host, demand)
        known = self._decisions.get(key)
        if known is None:
            if len(self._decisions) >= MOST_DECISIONS:
                self._decisions.clear()
            known = self._decisions[key] = decide(self.table.policies(name) or {}, demand, _address(host)) is True
        return known

    def forget_decisions(self) -> None:
        """Decide anew from now on: users or policies have changed."""
        self._decisions.clear()
        self._senders.clear()


@lru_cache(maxsize=4096)
def _address(host: str) -> Address | None:
    return address_of(host)


# Connections without a valid signature.

MOST_AN_ADDRESS = 256
PATIENCE_MS = 30_000


class Unauthenticated:
    """The connections that have shown no valid signature yet."""

    def __init__(self, *, most_an_address: int = MOST_AN_ADDRESS, patience_ms: int = PATIENCE_MS) -> None:
        self._most = most_an_address
        self._patience_ms = patience_ms
        self._since: dict[Connection, int] = {}
        self._hosts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._since)

    def admit(self, connection: Connection) -> bool:
        """Tell whether one more may come from where this one comes from, and count it."""
        if self._hosts[connection.host] >= self._most:
            return False
        self._hosts[connection.host] += 1
        self._since[connection] = connection.server.clock()
        return True

    def forget(self, connection: Connection) -> None:
        """Count a connection no more: it has signed, or has ended."""
        if self._since.pop(connection, None) is not None:
            self._hosts[connection.host] -= 1
            if not self._hosts[connection.host]:
                del self._hosts[connection.host]

    def sweep(self, now_ms: int) -> None:
        """Close the connections of those who take too long."""
        late = [each for each, since_ms in self._since.items() if now_ms - since_ms >= self._patience_ms]
        for connection in late:
            connection.close_because(f"no valid signature within {self._patience_ms} ms")


# The gate of one broker.


Connections = Callable[[], Iterable[Connection]]
"""Returns the connections of all servers that a gate guards: a user's are closed when he may do less than before."""


def guard(engine: Engine, files: Files, config: AccessConfig, connections: Connections) -> Gate:
    """Return the gate of a broker, its users and policies read; raises AccessUnreadable."""
    demands = Demands(engine.config.cluster_name, topics_of(engine))
    return gate_of(join(engine.config.root, "config", FILE_NAME), demands, files, config, connections)


def gate_of(path: str, demands: Demands, files: Files, config: AccessConfig, connections: Connections) -> Gate:
    """Return a gate with the users and policies of a file; raises AccessUnreadable."""

    def changed(name: str, is_less: bool) -> None:
        gate.forget_decisions()
        if is_less:
            # pulls that wait would still be answered
            loop = asyncio.get_running_loop()
            for connection in [each for each in connections() if each.user == name]:
                loop.call_soon(connection.close)  # after the answer to the request that changed it

    table = AccountTable(files, path, config.inner, changed)
    table.load()
    gate = Gate(table, demands, open_to_all=OPEN_TO_USERS if config.are_routes_open else frozenset())
    return gate


#: What lies here is meant for another topic.
_PARKED = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, PARKED_HALF_TOPIC})


def topics_of(engine: Engine) -> TopicAt:
    """Return a function that finds the topic of the record at a position, of a parked one the real topic."""

    def topic_at(position: int) -> str | None:
        try:
            message = decode(engine.look_at(position), verify=False)
        except (BrokerError, OSError):
            return None
        topic = message.properties.get(REAL_TOPIC) if message.topic in _PARKED else None
        return topic or message.topic

    return topic_at
