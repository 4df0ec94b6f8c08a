"""`python -m console.site.web`: the web process, console and REST on one port."""

from __future__ import annotations

import os
import sys

import uvicorn

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.site.settings")

from django.conf import settings

from broker import log_lines
from console.site.web.bounds import LOOPBACK, Bounds
from console.site.web.exposure import ServingRefused, refuse_open_serving, uncounted
from console.site.web.server import configuration, connections_at_most


def main() -> int:
    """Serve until SIGTERM; returns the exit code."""
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
