"""`manage.py checkback_http`: asks registered addresses what became of a transaction, when a broker wants to know."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from broker.log_lines import escaped
from console.features.checkback.allowed import AddressRefused
from console.features.checkback.worker import Worker


class Command(BaseCommand):
    """A producer of each group that has an address, until SIGTERM or SIGINT."""

    help = "Answer brokers' checks by asking the HTTP addresses that are registered for producer groups."

    def handle(self, *args: Any, **options: Any) -> None:
        """Ask and answer until a signal."""
        try:
            asyncio.run(self._run())
        except AddressRefused as error:
            raise CommandError(f"ESCAPEMENT_CHECKBACK_ORIGINS or ESCAPEMENT_CHECKBACK_NETWORKS: {error}") from error

    async def _run(self) -> None:
        working = asyncio.create_task(Worker(settings.ESCAPEMENT_NAMESRV).run(self._tell))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, working.cancel)
        self._tell([])
        with suppress(asyncio.CancelledError):
            await working

    def _tell(self, groups: Sequence[str]) -> None:
        self.stdout.write(escaped(f"asking for {', '.join(groups) or 'no group yet'}"))
        self.stdout.flush()
