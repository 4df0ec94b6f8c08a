"""What a pull asks for. Of its fields two change from one pull to the next, the others are read once:

queueOffset, commitOffset       each time
all others                      once for each way in which they come together
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..rocketmq.fields import INT_MAX, text, whole
from .clients import Subscription
from .subscription import build_subscription

COMMIT_OFFSET = 1
SUSPEND = 2
HAS_SUBSCRIPTION = 4

MOST_MESSAGES = 1024
MOST_BYTES = 4 * 1024 * 1024
"""What the settings of a pull's answer may be raised to; it holds at least one message."""

_LASTING = (
    "consumerGroup", "topic", "queueId", "sysFlag", "maxMsgNums", "maxMsgBytes", "suspendTimeoutMillis", "subVersion",
    "subscription", "expressionType",
)  # fmt: skip
_MOST_HEADERS = 20_000
#: Clients say what they like in these fields: what is longer is read each time rather than kept.
_MOST_LETTERS = 600


@dataclass(slots=True, eq=False)
class PullHeader:
    """The fields of a pull that do not change, checked."""

    group: str
    topic: str
    queue_id: int
    most_messages: int
    most_bytes: int
    suspend_ms: int
    """How long it may wait for news; 0: not at all."""
    commits: bool
    """True if it says how far the group came."""
    version: int
    brings_subscription: bool
    """False if that of the group's heartbeats counts."""
    expression: str
    kind: str
    _subscription: Subscription | None = None

    def subscription(self) -> Subscription:
        """What it brings itself; refused if it is not understood."""
        if self._subscription is None:
            self._subscription = build_subscription(self.topic, self.expression, self.kind, self.version)
        return self._subscription


class PullHeaders:
    """Reads the fields of pulls, and remembers what it has read."""

    def __init__(self) -> None:
        self._known: dict[tuple[str | None, ...], PullHeader] = {}

    def read(self, ext: Mapping[str, str]) -> PullHeader:
        """The lasting fields of a pull; refused if one is missing or no value of its kind."""
        key = tuple(map(ext.get, _LASTING))
        header = self._known.get(key)
        if header is None:
            header = _read(ext)
            if sum([len(value or "") for value in key]) <= _MOST_LETTERS:
                if len(self._known) >= _MOST_HEADERS:
                    self._known.clear()
                self._known[key] = header
        return header


def _read(ext: Mapping[str, str]) -> PullHeader:
    sys_flag = whole(ext, "sysFlag", 0, low=0, high=INT_MAX)
    return PullHeader(
        text(ext, "consumerGroup"),
        text(ext, "topic"),
        whole(ext, "queueId", low=0, high=INT_MAX),
        # none is one, as at RocketMQ: pull consumers of the Go client ask for 0 unless they are told otherwise
        min(max(whole(ext, "maxMsgNums", 32, low=0, high=INT_MAX), 1), MOST_MESSAGES),
        min(whole(ext, "maxMsgBytes", MOST_BYTES, low=0, high=INT_MAX), MOST_BYTES),
        max(whole(ext, "suspendTimeoutMillis", 0), 0) if sys_flag & SUSPEND else 0,
        bool(sys_flag & COMMIT_OFFSET),
        whole(ext, "subVersion", 0),
        bool(sys_flag & HAS_SUBSCRIPTION),
        ext.get("subscription") or "*",
        ext.get("expressionType") or "TAG",
    )
