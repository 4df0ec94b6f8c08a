"""What the processors of one broker share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from ..engine.config import EngineConfig
from ..engine.engine import Engine
from ..engine.tables.groups import Group
from .client_calls import ClientCalls
from .clients import Clients
from .connection import Connection
from .long_polls import WaitingPulls
from .queue_locks import QueueLocks
from .rates import Rates
from .resets import OffsetResets
from .send_sizes import Sends
from .statistics import Statistics


@dataclass(slots=True)
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
    speed: float | None = None
    """How fast the broker's clock runs, if it is simulated."""
    clients: Clients = field(default_factory=Clients)
    locks: QueueLocks = field(default_factory=QueueLocks)
    rates: Rates = field(default_factory=Rates)
    calls: ClientCalls = field(default_factory=ClientCalls)
    resets: OffsetResets = field(default_factory=OffsetResets)
    sends: Sends = field(default_factory=Sends)
    statistics: Statistics = field(init=False)
    hurry: Callable[[], None] = lambda: None
    """To be called after a handler made something due, or appended it outside of a request."""
    kick: Callable[[], None] = lambda: None
    """To be called after something was noted outside of a request that is to be written."""
    at_rest: Callable[[Callable[[], None]], None] = lambda call: call()
    """Calls when the upkeep that is under way has ended."""
    may_send: Callable[[Connection, str], bool] = lambda _connection, _topic: True
    """Whether who is at the other end of a connection may send to a topic."""
    put_total: int = 0
    """Messages made durable since the start."""
    get_total: int = 0
    """Messages given to consumers since the start."""

    def __post_init__(self) -> None:
        self.statistics = Statistics(self.config.cluster_name, self.started_ms)

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
