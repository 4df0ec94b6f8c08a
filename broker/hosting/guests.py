"""The guests that ask others: the mirror of all brokers, and the transfer of Redisson's delayed queues."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from django.conf import settings

from ..mirror.cluster import follow
from ..mirror.entries import clusters
from ..redisson.transfer import transfer_service
from . import HostingRefused
from .worker import STOP_TIMEOUT_S, Guest

logger = logging.getLogger(__name__)


class MirrorGuest(Guest):
    """The mirror of all brokers, in threads of its own."""

    def __init__(self, failed: Callable[[str], None]) -> None:
        super().__init__(failed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirror", daemon=True)

    def start(self) -> str:
        """Start following the brokers."""
        self._thread.start()
        return f"mirror of {' and '.join(clusters().values())}"

    def stop(self) -> None:
        """Finish the rounds under way."""
        self._stopping.set()
        self._thread.join(STOP_TIMEOUT_S)

    def _run(self) -> None:
        try:
            follow(clusters(), self._stopping)
        except Exception as error:
            logger.exception("the mirror ended by itself")
            self._failed(f"the mirror ended by itself: {error}")


class TransferGuest(Guest):
    """The service that moves what is due in Redisson's delayed queues, in threads of its own."""

    def start(self) -> str:
        """Start moving; a server that is down is waited for."""
        try:
            self._service = transfer_service(
                settings.REDISSON_URL,
                settings.REDIS_URL,
                settings.ESCAPEMENT_NAMESRV,
                queues=settings.REDISSON_QUEUES,
                read_only=settings.REDISSON_READ_ONLY,
            )
        except ValueError as error:
            raise HostingRefused(f"The transfer service could not start: {error}") from error
        self._service.start()
        return "the transfer of Redisson's delayed queues"

    def stop(self) -> None:
        """Finish the moves under way."""
        self._service.stop(STOP_TIMEOUT_S)
