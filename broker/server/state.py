"""What the processors of one broker share, the locks of its queues, and offsets that were reset.

`QueueLocks` is for orderly consumers: one client of a group at a time holds a queue, for 60 seconds from the last time
it asked.

`OffsetResets` are offsets that an administrator has set while consumers are at work. A consumer goes on from what it
remembers itself. So its next pull of the queue is answered with "go on there", and what it commits until then is not
taken: it is about messages from before. A pull that waits is answered at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from ..engine.config import EngineConfig
from ..engine.engine import Engine
from ..engine.tables.groups import Group
from .clients import ClientCalls, Clients
from .connection import Connection
from .long_polls import WaitingPulls
from .send_reply import Sends
from .statistics import Rates, Statistics

LOCK_LIFE_MS = 60_000
"""REBALANCE_LOCK_MAX_LIVE_TIME of RocketMQ; clients ask again every 20 s."""

QueueKey = tuple[str, int]


class OffsetResets:
    """Which groups are to be told where to go on: by (topic, queue id)."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[QueueKey, int]] = {}

    def set(self, group: str, queue: QueueKey, offset: int) -> None:
        """The group's next pull of this queue is told to go on at `offset`."""
        self._by_group.setdefault(group, {})[queue] = offset

    def has(self, group: str, queue: QueueKey) -> bool:
        """True if the group was not told yet: what it commits is out of date."""
        return bool(self._by_group) and queue in self._by_group.get(group, ())

    def take(self, group: str, queue: QueueKey) -> int | None:
        """Where the group is to go on; told once."""
        if not self._by_group:
            return None
        queues = self._by_group.get(group)
        if queues is None or queue not in queues:
            return None
        offset = queues.pop(queue)
        if not queues:
            del self._by_group[group]
        return offset

    def forget(self, group: str) -> None:
        """Its consumers are gone; those that come begin with what is stored."""
        self._by_group.pop(group, None)


class QueueLocks:
    """Who holds which queue: (topic, queue id) by group."""

    def __init__(self) -> None:
        self._held: dict[str, dict[QueueKey, tuple[str, int]]] = {}

    def lock(self, group: str, client_id: str, queues: list[QueueKey], now_ms: int) -> list[QueueKey]:
        """Takes (or keeps) what is free or expired; the queues that this client holds now."""
        if not queues:
            return []
        held = self._held.setdefault(group, {})
        granted = []
        for queue in queues:
            owner, since_ms = held.get(queue, (client_id, now_ms))
            if owner == client_id or now_ms - since_ms > LOCK_LIFE_MS:
                held[queue] = (client_id, now_ms)
                granted.append(queue)
        return granted

    def unlock(self, group: str, client_id: str, queues: list[QueueKey]) -> None:
        """Gives back those of the queues that this client holds."""
        held = self._held.get(group, {})
        for queue in queues:
            if queue in held and held[queue][0] == client_id:
                del held[queue]
        if not held:
            self._held.pop(group, None)

    def has_live_locks(self, group: str, now_ms: int) -> bool:
        """True if any queue is held by a consumer of the group: it consumes in order."""
        return any(now_ms - since_ms <= LOCK_LIFE_MS for _, since_ms in self._held.get(group, {}).values())

    def held(self, group: str, now_ms: int) -> list[tuple[QueueKey, str]]:
        """The queues of the group that are held now, and by whom."""
        return sorted(
            (queue, owner)
            for queue, (owner, since_ms) in self._held.get(group, {}).items()
            if now_ms - since_ms <= LOCK_LIFE_MS
        )


@dataclass(slots=True, kw_only=True)
class BrokerState:
    """One broker: its engine, who is connected, who waits, who holds which queue."""

    engine: Engine
    config: EngineConfig
    clock: Callable[[], int]
    """The broker's clock: what is stored and falls due (clock.py)."""
    live_clock: Callable[[], int]
    """The live clock: what is between living processes."""
    waiting: WaitingPulls
    started_ms: int
    hurry: Callable[[], None]
    """To be called after a handler made something due, or appended it outside of a request."""
    kick: Callable[[], None]
    """To be called after something was noted outside of a request that is to be written."""
    at_rest: Callable[[Callable[[], None]], None]
    """Calls when the upkeep that is under way has ended."""
    may_send: Callable[[Connection, str], bool]
    """Whether who is at the other end of a connection may send to a topic."""
    speed: float | None = None
    """How fast the broker's clock runs, if it is simulated."""
    clients: Clients = field(init=False)
    locks: QueueLocks = field(default_factory=QueueLocks)
    rates: Rates = field(default_factory=Rates)
    calls: ClientCalls = field(default_factory=ClientCalls)
    resets: OffsetResets = field(default_factory=OffsetResets)
    sends: Sends = field(default_factory=Sends)
    statistics: Statistics = field(init=False)

    def __post_init__(self) -> None:
        self.clients = Clients(deserted=self.resets.forget)
        self.statistics = Statistics(self.config.cluster_name, self.started_ms)
        self.statistics.begin(self.engine.topics.all(), self.engine.queue_growth)

    def use_settings(self, config: EngineConfig) -> None:
        """Go on with settings that were changed while the broker runs."""
        self.config = config

    def group(self, name: str) -> Group:
        """The group that somebody consumes as; made if it is new, unless the setting says that only administrators
        make groups. Raises GroupNotFound, InvalidGroupName, OSError."""
        return self.engine.groups.find(name, may_make=self.config.auto_create_groups)

    @property
    def live_ms(self) -> Callable[[int], int] | None:
        """What says when by the live clock a moment of the broker's clock comes; None where they are the same."""
        clock, live_clock, speed = self.clock, self.live_clock, self.speed
        if speed is None:
            return None
        return lambda moment_ms: live_clock() + max(0, math.ceil((moment_ms - clock()) / speed))

    @property
    def address(self) -> str:
        """The address that clients are told to connect to."""
        host = f"[{self.config.host}]" if ":" in self.config.host else self.config.host
        return f"{host}:{self.config.port}"
