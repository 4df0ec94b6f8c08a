"""For tests of programs that use the client: a real broker in the process, with a clock in the test's hand.

>>> def test_the_reminder_goes_out_after_a_day(escapement):
...     remind("4711")
...     escapement.forward(hours=24)
...     escapement.assert_sent("reminders", body="4711")

- `Escapement` is that broker; pytest has it as the fixture `escapement` (plugin.py), unittest by `EscapementTestCase`.
- `make_message` makes a message to call a handler by hand with.
- `OutsideRefused` is raised when a test makes a client for a broker that is not its own.
- `BrokerThread` and `NamesrvThread` are a broker with files and the machine's clock, and a name service by itself, that
  may be stopped and started again.

What is asked for is loaded at its first use: the plug-in is loaded in every run of pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cases import EscapementTestCase as EscapementTestCase
    from .consuming import Consumed as Consumed
    from .guard import OutsideRefused as OutsideRefused
    from .kit import Escapement as Escapement
    from .messages import Messages as Messages
    from .messages import PendingMessage as PendingMessage
    from .messages import SentMessage as SentMessage
    from .messages import make_message as make_message
    from .threads import BrokerThread as BrokerThread
    from .threads import NamesrvThread as NamesrvThread
    from .threads import small_store as small_store

_HOMES = {
    "BrokerThread": "threads",
    "Consumed": "consuming",
    "Escapement": "kit",
    "EscapementTestCase": "cases",
    "Messages": "messages",
    "NamesrvThread": "threads",
    "OutsideRefused": "guard",
    "PendingMessage": "messages",
    "SentMessage": "messages",
    "make_message": "messages",
    "small_store": "threads",
}
__all__ = [
    "BrokerThread",
    "Consumed",
    "Escapement",
    "EscapementTestCase",
    "Messages",
    "NamesrvThread",
    "OutsideRefused",
    "PendingMessage",
    "SentMessage",
    "make_message",
    "small_store",
]


def __getattr__(name: str) -> Any:
    """Load what is asked for at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
