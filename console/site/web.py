"""`python -m console.site.web`: the web process, console and REST on one port, and uvicorn as this project runs it."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import uvicorn
from django.conf import settings

from broker import log_lines
from broker.hosting import Certificates, TlsConfig, wall_clock_ms
from console.site.bounds import LOOPBACK, BoundedProtocol, Bounds
from console.site.checks import ServingRefused, refuse_open_serving, uncounted
from console.site.tls import Context, LeadsToHttps, secured

logger = logging.getLogger(__name__)

#: a page has nothing to say by its websocket (console.ui.sockets)
SOCKET_MESSAGE_BYTES = 4 << 10
GRACE_S = 5
#: descriptors for what is no connection of a client: the database, brokers, files
RESERVED_DESCRIPTORS = 256


def configuration(
    application: Any,
    *,
    bounds: Bounds | None = None,
    proxies: Sequence[str] = (),
    certificates: Context | None = None,
    **named: Any,
) -> uvicorn.Config:
    """Return uvicorn's configuration behind these proxies, whose X-Forwarded-For and -Proto are believed; `named` are
    further arguments of uvicorn's, such as host and port. `certificates`: HTTPS, and nothing else."""
    bounds = bounds or Bounds()
    protocol = secured(certificates, bounds) if certificates else partial(BoundedProtocol, bounds=bounds)
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


class WebServer(uvicorn.Server):
    """uvicorn's server; `leading` is what another port answers, which leads to this one."""

    def __init__(self, config: uvicorn.Config, leading: uvicorn.Config | None = None) -> None:
        super().__init__(config)
        self._leading = leading

    async def startup(self, sockets: Any = None) -> None:
        """Listen on both; raises OSError where the other port cannot be listened on."""
        await super().startup(sockets)
        if self._leading is None:
            return
        leading = self._leading
        leading.load()

        def made() -> asyncio.Protocol:
            protocol: Any = leading.http_protocol_class
            return cast(asyncio.Protocol, protocol(config=leading, server_state=self.server_state, app_state={}))

        loop = asyncio.get_running_loop()
        self.servers.append(await loop.create_server(made, host=leading.host, port=leading.port))
        logger.info("port %d leads to the one with TLS", leading.port)


def own_certificates() -> Context | None:
    """Return what the console shows, None without a certificate of its own. Raises ServingRefused."""
    if settings.WEB_TLS is None:
        return None
    try:
        return Certificates(TlsConfig(**settings.WEB_TLS), wall_clock_ms).context
    except OSError as error:
        raise ServingRefused(f"The console cannot serve HTTPS: {error}.") from None


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
        certificates = own_certificates()
    except ServingRefused as refusal:
        sys.stderr.write(f"ERROR {refusal}\n")
        return os.EX_CONFIG
    proxies = settings.TRUSTED_PROXIES
    bounds = Bounds(
        connections=connections_at_most(settings.WEB_CONNECTIONS), uncounted=(*LOOPBACK, *uncounted(proxies))
    )
    host, port = settings.WEB_HOST, settings.WEB_PORT
    config = configuration(
        "console.site.asgi:application",
        bounds=bounds,
        proxies=proxies,
        certificates=certificates,
        host=host,
        port=port,
    )
    leading = None
    if settings.WEB_REDIRECT_PORT:
        leading = configuration(
            LeadsToHttps(port), bounds=bounds, lifespan="off", host=host, port=settings.WEB_REDIRECT_PORT
        )
    if certificates is not None:
        # what uvicorn says of itself knows nothing of it
        logger.info("serving HTTPS, and nothing else, on port %d", port)
    server = WebServer(config, leading)
    server.run()
    return 0 if server.started else 1


if __name__ == "__main__":
    raise SystemExit(main())
