"""The guests that listen: the broker with its engine, and a name service by itself; and the engine's configuration."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import threading
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ClassVar, Literal, cast

import uvloop
from django.conf import settings

from ..engine.config import EngineConfig
from ..engine.disk import OsFiles
from ..engine.errors import BrokerError
from ..engine.fsck.survey import sizes_of
from ..server.broker import BrokerService, Protection
from ..server.clock import Clocks
from ..server.connection import Limits
from ..server.listener import limit_free_memory, raise_descriptor_limit
from ..server.namesrv import NamesrvConfig, NamesrvService
from . import HostingRefused, access_config, name_servers, refuse_open_listening, simulation, tls_config
from .worker import STOP_TIMEOUT_S, Guest

logger = logging.getLogger(__name__)

START_TIMEOUT_S = 300.0


class LoopGuest(Guest):
    """A server in a thread with an event loop of its own; `what` it is, in messages."""

    what: ClassVar[str]

    def __init__(self, name: str, failed: Callable[[str], None]) -> None:
        super().__init__(failed)
        self._name = name
        self._started: Future[str] = Future()
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name=f"{self.what}-{name}", daemon=True)

    def start(self) -> str:
        """Listen, if that is allowed."""
        refuse_open_listening()
        raise_descriptor_limit()
        limit_free_memory()
        self._thread.start()
        return self._started.result(START_TIMEOUT_S)

    def stop(self) -> None:
        """Answer what was asked and end."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_TIMEOUT_S + 1)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                self._loop = runner.get_loop()
                runner.run(self._serve())
        except Exception as error:
            logger.exception("the %s ended by itself", self.what)
            if self._started.done():
                self._failed(f"the {self.what} ended by itself: {error}")
            else:
                self._started.set_exception(HostingRefused(f"the {self.what} could not start: {error}"))

    @abstractmethod
    async def _serve(self) -> None:
        """Serve until `_stopping` is set; say in `_started` where, or why not."""


class EngineGuest(LoopGuest):
    """The engine and its remoting server, in one thread with one event loop."""

    what = "broker"

    def start(self) -> str:
        """Open the store and listen."""
        os.makedirs(settings.BROKER_STORE, exist_ok=True)
        return super().start()

    async def _serve(self) -> None:
        try:
            service = BrokerService(
                engine_config(self._name),
                listen_host=settings.BROKER_HOST,
                broker_port=settings.BROKER_PORT,
                namesrv_port=settings.NAMESRV_PORT,
                on_failed=lambda reason: self._failed(f"the store failed: {reason}"),
                vip_channel=settings.BROKER_VIP,
                protection=Protection(access=access_config(), tls=tls_config(), metrics_token=settings.METRICS_TOKEN),
                clocks=Clocks(simulation=simulation()),
                register_at=name_servers(),
                limits=Limits(slow_ms=settings.SLOW_MS),
                self_test=settings.BROKER_SELF_TEST,
            )
            await service.start()
        except (BrokerError, OSError) as error:
            self._started.set_exception(HostingRefused(_why_not(error)))
            return
        except HostingRefused as refusal:
            self._started.set_exception(refusal)
            return
        clock = f", clock {settings.SIMULATED_CLOCK} simulated" if settings.SIMULATED_CLOCK else ""
        self._started.set_result(f"broker {service.address}, name service {service.namesrv_address}{clock}")
        await self._stopping.wait()
        await service.stop(STOP_TIMEOUT_S)


class NamesrvGuest(LoopGuest):
    """A name service by itself, which is named by its port."""

    what = "name service"

    async def _serve(self) -> None:
        try:
            service = NamesrvService(
                NamesrvConfig(
                    root=str(settings.VAR / f"namesrv-{self._name}"),
                    host=settings.BROKER_HOST,
                    port=int(self._name),
                    cluster=settings.BROKER_CLUSTER,
                    access=access_config(),
                    tls=tls_config(),
                )
            )
            await service.start()
        except (BrokerError, OSError) as error:
            is_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            why = f"Port {self._name} is in use by another program: choose another one." if is_taken else str(error)
            self._started.set_exception(HostingRefused(why))
            return
        except HostingRefused as refusal:
            self._started.set_exception(refusal)
            return
        self._started.set_result(f"name service {service.address}")
        await self._stopping.wait()
        await service.stop()


def engine_config(name: str) -> EngineConfig:
    """Return the engine's configuration from Django's settings, and for a store that is there its own sizes."""
    config: dict[str, Any] = sizes_of(OsFiles(), str(settings.BROKER_STORE))
    return EngineConfig(
        root=str(settings.BROKER_STORE),
        cluster_name=settings.BROKER_CLUSTER,
        broker_name=name,
        host=settings.BROKER_ADVERTISE,
        port=settings.BROKER_PORT,
        flush=cast(Literal["sync", "async"], settings.BROKER_FLUSH),
        timer_max_delay_ms=settings.BROKER_TIMER_DAYS * 86_400_000,
        timer_max_pending=settings.BROKER_TIMER_PENDING,
        timer_max_per_slot=settings.BROKER_TIMER_PER_SLOT,
        auto_create_groups=settings.BROKER_AUTO_CREATE_GROUPS,
        pull_most_messages=settings.BROKER_PULL_MESSAGES,
        pull_most_bytes=settings.BROKER_PULL_KB * 1024,
        **config,
    )


def _why_not(error: BrokerError | OSError) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        ports = f"{settings.BROKER_PORT} (ESCAPEMENT_BROKER_PORT) or {settings.NAMESRV_PORT} (ESCAPEMENT_NAMESRV_PORT)"
        return f"Port {ports} on {settings.BROKER_HOST} is in use by another program: stop it, or set another port."
    return str(error)
