"""When a message is to be delivered, as a sender says it: checked, and as the properties that brokers read.

| option          | property         |                                                               |
|-----------------|------------------|---------------------------------------------------------------|
| `deliver_at_ms` | TIMER_DELIVER_MS | epoch ms                                                      |
| `delay_ms`      | TIMER_DELAY_MS   | from the moment at which the broker takes it, by its clock    |
| `schedule_key`  | ESC_SCHEDULE_KEY | business key, unique in its topic while the message waits     |
| `on_conflict`   | ESC_ON_CONFLICT  | what to do if a message with that key waits: error (default), |
|                 |                  | replace it, or keep it and drop this one                      |
| `reject_past`   | ESC_REJECT_PAST  | refuse a moment that is past instead of delivering at once    |

A half becomes a timer when its transaction commits, and nobody can be told then that its key is taken: there
`on_conflict` must be replace.

Apache RocketMQ knows the first two and keeps the others unread.
"""

from __future__ import annotations

from typing import TypedDict

from .errors import InvalidArgument
from .timers import OnConflict

MAX_SCHEDULE_KEY_CHARACTERS = 200
#: RocketMQ reads moments as a signed 64-bit number.
_LATEST_MS = 2**63 - 1
_CONFLICTS = ("error", "replace", "keep")
#: How much of what is not valid is shown.
_SHOWN_BITS, _SHOWN_CHARACTERS = 1_000, 100


class Timing(TypedDict, total=False):
    """The options of a send that say when it is delivered."""

    deliver_at_ms: int | None
    delay_ms: int | None
    schedule_key: str | None
    on_conflict: OnConflict | None
    reject_past: bool


_OPTIONS = tuple(Timing.__annotations__)


def timing_properties(timing: Timing, delay_level: int) -> str:
    """The properties in stored form, "" for none; raises InvalidArgument, TypeError for an option that there is not."""
    for name in timing:
        if name not in _OPTIONS:
            raise TypeError(f"{name!r} is no option of a send; those that say when are {', '.join(_OPTIONS)}.")
    deliver_at_ms, delay_ms = timing.get("deliver_at_ms"), timing.get("delay_ms")
    given = [
        name
        for name, value in (
            ("delay_level", delay_level or None),
            ("deliver_at_ms", deliver_at_ms),
            ("delay_ms", delay_ms),
        )
        if value is not None
    ]
    if len(given) > 1:
        raise InvalidArgument(f"Give one of {' and '.join(given)}, not both.", field=given[-1])
    is_timer = deliver_at_ms is not None or delay_ms is not None
    parts: list[str] = []
    if deliver_at_ms is not None:
        parts.append(f"TIMER_DELIVER_MS\x01{check_moment(deliver_at_ms, 'deliver_at_ms')}\x02")
    if delay_ms is not None:
        parts.append(f"TIMER_DELAY_MS\x01{check_moment(delay_ms, 'delay_ms')}\x02")
    schedule_key, on_conflict = timing.get("schedule_key"), timing.get("on_conflict")
    if schedule_key is not None:
        check_schedule_key(schedule_key)
        if not is_timer:
            raise InvalidArgument("A schedule_key needs deliver_at_ms or delay_ms.", field="schedule_key")
        parts.append(f"ESC_SCHEDULE_KEY\x01{schedule_key}\x02")
    if on_conflict is not None:
        if on_conflict not in _CONFLICTS:
            raise InvalidArgument(
                f"on_conflict {on_conflict!r} is not one of {', '.join(_CONFLICTS)}.", field="on_conflict"
            )
        if schedule_key is None:
            raise InvalidArgument("on_conflict needs a schedule_key to be in conflict with.", field="on_conflict")
        parts.append(f"ESC_ON_CONFLICT\x01{on_conflict}\x02")
    reject_past = timing.get("reject_past")
    if not isinstance(reject_past, bool | None):
        raise InvalidArgument(f"reject_past {_shown(reject_past)} is neither True nor False.", field="reject_past")
    if reject_past:
        if not is_timer:
            raise InvalidArgument("reject_past needs deliver_at_ms or delay_ms.", field="reject_past")
        parts.append("ESC_REJECT_PAST\x01true\x02")
    return "".join(parts)


def check_moment(value: int, field: str) -> int:
    """A whole number of ms that brokers can read; raises InvalidArgument."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LATEST_MS:
        raise InvalidArgument(f"{field} {_shown(value)} is not valid: a whole number of ms from 0 up.", field=field)
    return value


def _shown(value: object) -> str:
    """As it was given, if that is short; Python writes no number of thousands of digits."""
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return "with so many digits"
    return repr(value)[:_SHOWN_CHARACTERS]


def check_schedule_key(key: str) -> None:
    """1 to 200 printable characters, blanks among them; raises InvalidArgument."""
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_SCHEDULE_KEY_CHARACTERS or not key.isprintable():
        raise InvalidArgument(
            f"schedule_key {str(key)[:210]!r} is not valid: 1 to {MAX_SCHEDULE_KEY_CHARACTERS} printable characters.",
            field="schedule_key",
        )
