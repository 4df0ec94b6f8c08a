"""uvicorn as this project runs it."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import uvicorn

from console.site.web.bounds import BoundedProtocol, Bounds

#: a page has nothing to say by its websocket (console.site.sockets)
SOCKET_MESSAGE_BYTES = 4 << 10
GRACE_S = 5
#: descriptors for what is no connection of a client: the database, brokers, files
RESERVED_DESCRIPTORS = 256


def configuration(
    application: Any, *, bounds: Bounds | None = None, proxies: Sequence[str] = (), **named: Any
) -> uvicorn.Config:
    """Return uvicorn's configuration behind these proxies, whose X-Forwarded-For and -Proto are believed; `named` are
    further arguments of uvicorn's, such as host and port."""
    protocol = partial(BoundedProtocol, bounds=bounds or Bounds())
    return uvicorn.Config(
        application,
        http=cast(Any, protocol),
        ws="websockets-sansio",
        ws_max_size=SOCKET_MESSAGE_BYTES,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
        **named,
    )


def connections_at_most(wanted: int) -> int:
    """Return how many connections this process has descriptors for; raises its soft limit for them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVED_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(min(wanted, soft - RESERVED_DESCRIPTORS), soft // 2)
