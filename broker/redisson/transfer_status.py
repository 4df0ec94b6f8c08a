"""The status of a transfer service: one JSON document, which expires soon, under a key of Escapement's own."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import cast

from .server import Server

logger = logging.getLogger(__name__)

STATUS_PREFIX = "escapement_delay_transfer:"
#: A service that says nothing for so long is gone.
STATUS_KEPT_S = 15


@dataclass(slots=True)
class QueueStatus:
    """A queue as the transfer service last saw it. `_ms` are by the server's clock, in epoch ms."""

    name: str
    waiting: int = 0
    still_due: int = 0
    next_due_ms: int | None = None
    poison: int = 0
    moved: int = 0
    moved_bytes: int = 0
    last_moved_ms: int | None = None
    last_count: int = 0
    #: How late the first of the last batch was, and the most since the start.
    late_ms: int = 0
    most_late_ms: int = 0
    #: How long the last script took, the network included.
    call_ms: float = 0.0
    seen_ms: int | None = None
    reasons: dict[str, int] = field(default_factory=dict)
    errors: int = 0
    #: What is wrong with this queue now, in words for people; empty when nothing is.
    problem: str = ""
    #: "plain", "reliable" or "import", and where to; members on their way, and those that came through the plain list.
    mode: str = "plain"
    topic: str = ""
    sending: int = 0
    taken_over: int = 0
    notice: str = ""


@dataclass(slots=True)
class TransferStatus:
    """A transfer service and its queues."""

    instance: str
    started_ms: int
    now_ms: int
    #: "moving", "watching" (read-only) or "waiting" (for Redis to come back).
    state: str
    read_only: bool
    #: By how many ms the clock of this process is ahead of the server's.
    skew_ms: float | None
    #: Why it waits, since when, and how often it had to.
    problem: str
    waiting_since_ms: int | None
    outages: int
    listening: bool
    queues: list[QueueStatus]

    def as_json(self) -> str:
        """Return the status as a document in JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: bytes | str) -> TransferStatus:
        """Return the status in a document of this version; raise ValueError, KeyError or TypeError."""
        fields = json.loads(text)
        fields["queues"] = [QueueStatus(**each) for each in fields["queues"]]
        return cls(**fields)


def publish(server: Server, status: TransferStatus) -> None:
    """Keep the status a short while for others to read."""
    server.run("SET", STATUS_PREFIX + status.instance, status.as_json(), "EX", STATUS_KEPT_S)


def withdraw(server: Server, instance: str) -> None:
    """Take back the status of this service, which is over."""
    server.run("DEL", STATUS_PREFIX + instance)


def running_services(server: Server) -> Iterator[TransferStatus]:
    """Yield every transfer service that has published its status lately; what another version wrote is left out."""
    scan = getattr(server.client, "scan_iter", None)
    assert scan is not None
    for key in cast("Iterator[bytes]", scan(match=STATUS_PREFIX + "*", count=1000)):
        text = cast("bytes | None", server.run("GET", key))
        if text is None:
            continue
        try:
            yield TransferStatus.from_json(text)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            logger.info("the status in %r is not read: %s", key, error)
