"""Escapement: delayed, scheduled and transactional messages, in the protocol and the files of Apache RocketMQ.

What most programs need is here, and comes from `client`: producers, consumers, admins, and the errors they raise.

>>> from escapement_mq import Producer
>>> with Producer("shop", "127.0.0.1:9876") as producer:
...     producer.send("orders", "cancel 4711 if it is not paid", delay_ms=1_800_000, schedule_key="4711")

Beside it are `outbox` and `handlers` for Django, and the broker itself: `python -m escapement_mq broker --store DIR`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import *  # noqa: F403 - the names of its __all__, for type checkers


def __getattr__(name: str) -> Any:
    """Load the client at the first use of one of its names: the engine stands below it and needs none of it."""
    if name == "__version__":
        from .version import version

        return version()
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    client = import_module(".client", __name__)
    if name != "__all__" and name not in client.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(client, name)


def __dir__() -> list[str]:
    from importlib import import_module

    return sorted([*globals(), *import_module(".client", __name__).__all__])
