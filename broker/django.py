"""What every app of ours in a Django project shares: its settings about brokers, and one producer of the process.

>>> from escapement_mq.django import producer
>>> producer.send("orders", "4711")

| setting            | default        | meaning                                               |
|--------------------|----------------|-------------------------------------------------------|
| ESCAPEMENT_NAMESRV | 127.0.0.1:9876 | name server, `host:port;host:port`                    |
| ESCAPEMENT_CLIENT  | nothing        | arguments of its clients: access_key, secret_key, tls |

Settings are read from Django's at each use, so that tests may override them.
"""

from __future__ import annotations

import atexit
import threading
from contextlib import suppress
from typing import Any

from django.conf import settings

from .client import Access, ClientError, Producer, remember

DEFAULT_NAMESRV = "127.0.0.1:9876"
#: No group of halves: nobody is asked about what this producer sends.
GROUP = "ESCAPEMENT_DJANGO"


def namesrv() -> str:
    """Return the address of the name server."""
    return str(getattr(settings, "ESCAPEMENT_NAMESRV", DEFAULT_NAMESRV))


def remember_access() -> None:
    """Have clients of the configured name server sign and encrypt as ESCAPEMENT_CLIENT says."""
    access: Access = getattr(settings, "ESCAPEMENT_CLIENT", Access())
    remember(namesrv(), access)


class SharedProducer:
    """The Producer of this process at the configured name server; made at its first use, closed at the end.

    It is a plain one: inside `transactional()` it raises, as its messages would go out whatever becomes of the block.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: tuple[str, Producer] | None = None
        atexit.register(self.close)

    def _get(self) -> Producer:
        address = namesrv()
        made = self._made
        if made is None or made[0] != address:
            with self._lock:
                self.close()
                remember_access()
                made = self._made = (address, Producer(GROUP, address))
        return made[1]

    def close(self) -> None:
        """Close the producer, if there is one; the next use makes another."""
        made, self._made = self._made, None
        if made is not None:
            with suppress(ClientError):
                made[1].close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._get(), name)


#: Has all methods of a Producer.
producer: Producer = SharedProducer()  # type: ignore[assignment] # __getattr__ gives them
