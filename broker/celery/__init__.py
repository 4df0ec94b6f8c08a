"""Celery and kombu on this broker: the transport ``escapement://``, and tasks that wait for their moment.

>>> app = Celery("shop", broker="escapement://127.0.0.1:9876")
>>> remind.apply_async(("4711",), countdown=86_400, task_id="remind-4711")  # a timer of the broker
>>> revoke("remind-4711").outcome
'cancelled'

Importing this package makes the address known to kombu; where it is installed as a wheel, kombu knows it by itself.
kombu asks installed packages for serializers when it is loaded, and for no transports. So the wheel offers a serializer
(`KOMBU`: JSON under a name of its own, which nobody has to use), and kombu imports this package to have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kombu.transport import TRANSPORT_ALIASES

if TYPE_CHECKING:
    from .steering import reschedule as reschedule
    from .steering import revoke as revoke

__all__ = ["KOMBU", "SCHEME", "reschedule", "revoke"]

SCHEME = "escapement"


def _dumps(value: Any) -> str:
    from kombu.utils.json import dumps

    return str(dumps(value))


def _loads(text: Any) -> Any:
    from kombu.utils.json import loads

    return loads(text)


#: The arguments of kombu's `register` for a serializer.
KOMBU = (_dumps, _loads, "application/x-escapement-json", "utf-8")

TRANSPORT_ALIASES.setdefault(SCHEME, f"{__name__}.transport:Transport")


def __getattr__(name: str) -> Any:
    """Import what needs Celery only when it is used: kombu may load this package while it is being imported itself."""
    if name in ("reschedule", "revoke"):
        from . import steering

        return getattr(steering, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
