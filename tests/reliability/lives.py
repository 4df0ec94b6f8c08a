"""A history sorted by message: what was done with each, and what the faults allowed meanwhile. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.reliability.history import Event

#: Faults after which a client may not know what the broker knows, or the broker not what it had promised in memory.
_GOES_ON_MS = 500
DEAD_PREFIX = "%DLQ%"


@dataclass(frozen=True, slots=True)
class Promises:
    """What a broker says of itself, where brokers differ. The defaults are the stricter."""

    #: the steps in which timers are kept
    tick_ms: int = 1
    #: the answer to a cancel says what becomes of the message
    cancels_are_definite: bool = True
    #: what is released or committed is in the log once, also after a kill
    releases_once: bool = True


@dataclass(slots=True)
class Life:
    """One message."""

    id: str
    send: Event | None = None
    hands: list[Event] = field(default_factory=list)
    stored: list[Event] = field(default_factory=list)
    letters: list[Event] = field(default_factory=list)
    acks: list[Event] = field(default_factory=list)
    cancels: list[Event] = field(default_factory=list)
    moves: list[Event] = field(default_factory=list)
    said: list[Event] = field(default_factory=list)
    is_pending: bool = False

    @property
    def kind(self) -> str:
        """The kind of message, empty if nobody sent it."""
        return "" if self.send is None else str(self.send.about["kind"])

    @property
    def is_accepted(self) -> bool:
        """Whether the sender was told that the broker has it."""
        return self.send is not None and self.send.outcome == "ok"

    @property
    def is_shown(self) -> bool:
        """Whether consumers could see it."""
        return bool(self.stored or self.hands)

    def said_so(self, decision: str) -> list[Event]:
        """The times at which its producer said this of the half, in answer to a check or not."""
        return [event for event in self.said if event.about["said"] == decision and event.outcome != "refused"]

    def cancelled(self, outcome: str) -> list[Event]:
        """The cancels that ended so."""
        return [event for event in self.cancels if event.outcome == outcome]

    @property
    def must_be_shown(self) -> bool:
        """Whether a reader has to get it: it was accepted, and nothing that was done may keep it back."""
        if not self.is_accepted or self.kind == "far":
            return False
        if self.kind == "half":
            return bool(self.said_so("commit"))
        return not self.cancelled("ok") and not self.cancelled("unknown")

    def first_shown_ms(self) -> int | None:
        """When a consumer first had it at the latest."""
        return min((event.answer_ms for event in self.hands), default=None)


class Clock:
    """How far the broker's clock was from the machine's."""

    def __init__(self, events: Sequence[Event]) -> None:
        #: each step began at `call` and was done by `answer`
        self._steps = [event for event in events if event.op == "clock"]

    def offsets_ms(self, from_ms: int, to_ms: int) -> list[int]:
        """The offsets that it may have had between two moments."""
        found = [0]
        for step in self._steps:
            if step.answer_ms + _GOES_ON_MS < from_ms:
                found = []
            if step.call_ms <= to_ms:
                found.append(int(step.about["step_ms"]))
        return found

    def went_back(self, from_ms: int, to_ms: int) -> bool:
        """Whether it was set back between two moments."""
        before = 0
        for step in self._steps:
            after = int(step.about["step_ms"])
            if after < before and step.answer_ms >= from_ms and step.call_ms <= to_ms:
                return True
            before = after
        return False


class Faults:
    """When something was done to the broker."""

    def __init__(self, events: Sequence[Event]) -> None:
        spans = sorted((event.call_ms, event.answer_ms, event.id) for event in events if event.op == "fault")
        self._begins = [begin for begin, _, _ in spans]
        self._spans = spans
        self._kinds = {kind for _, _, kind in spans}

    def had(self, kind: str) -> bool:
        """Whether one of this kind was done at all."""
        return kind in self._kinds

    def any(self, from_ms: int, to_ms: int, *kinds: str) -> bool:
        """Whether one of these (none named: any) lasted into the span of time."""
        upto = bisect_right(self._begins, to_ms)
        return any(end >= from_ms and (not kinds or kind in kinds) for _, end, kind in self._spans[:upto])


@dataclass(slots=True)
class Histories:
    """A history, by message, with what is of the whole run."""

    events: Sequence[Event]
    lives: dict[str, Life]
    clock: Clock
    faults: Faults
    #: groups by topic that are to get everything of it
    readers: dict[str, list[str]]
    #: tries by group after which a message is a dead letter
    attempts: dict[str, int]

    @classmethod
    def of(cls, events: Sequence[Event]) -> Histories:
        """Sort a history."""
        lives: dict[str, Life] = {}
        readers: dict[str, list[str]] = {}
        attempts: dict[str, int] = {}
        for event in events:
            if event.op == "reader":
                readers.setdefault(str(event.about["topic"]), []).append(event.id)
            elif event.op == "letters":
                attempts[event.id] = int(event.about["attempts"])
            elif event.op not in ("fault", "clock", "health", "stood", "count"):
                _file(lives.setdefault(event.id, Life(event.id)), event)
        return cls(events, lives, Clock(events), Faults(events), readers, attempts)

    def readers_of(self, life: Life) -> list[str]:
        """The groups that are to get a message."""
        return [] if life.send is None else self.readers.get(str(life.send.about["topic"]), [])


def _file(life: Life, event: Event) -> None:
    """Put an event where it belongs."""
    if event.op == "send":
        life.send = event
    elif event.op == "hand":
        life.hands.append(event)
    elif event.op == "stored":
        is_letter = str(event.about["topic"]).startswith(DEAD_PREFIX)
        (life.letters if is_letter else life.stored).append(event)
    elif event.op == "ack":
        life.acks.append(event)
    elif event.op == "cancel":
        life.cancels.append(event)
    elif event.op == "move":
        life.moves.append(event)
    elif event.op in ("decide", "check"):
        life.said.append(event)
    elif event.op == "pending":
        life.is_pending = True
    else:
        raise ValueError(f"nothing is known of {event.op!r}")
