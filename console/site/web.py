"""`python -m console.site.web`: the web process, console and REST on one port, and uvicorn as this project runs it."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import uvicorn
from django.conf import settings

from broker import log_lines
from console.site.bounds import LOOPBACK, BoundedProtocol, Bounds
from console.site.checks import ServingRefused, refuse_open_serving, uncounted

#: a page has nothing to say by its websocket (console.ui.sockets)
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


def main() -> int:
    """Serve until SIGTERM; returns the exit code."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.site.settings")
    os.umask(0o077)
    log_lines.begin()
    try:
        refuse_open_serving(settings)
    except ServingRefused as refusal:
        sys.stderr.write(f"ERROR {refusal}\n")
        return os.EX_CONFIG
    proxies = settings.TRUSTED_PROXIES
    bounds = Bounds(
        connections=connections_at_most(settings.WEB_CONNECTIONS), uncounted=(*LOOPBACK, *uncounted(proxies))
    )
    config = configuration(
        "console.site.asgi:application", bounds=bounds, proxies=proxies, host=settings.WEB_HOST, port=settings.WEB_PORT
    )
    server = uvicorn.Server(config)
    server.run()
    return 0 if server.started else 1


if __name__ == "__main__":
    raise SystemExit(main())
