"""Celery workers that host something: the engine with its remoting server (`--engine NAME`), a name service by itself
(`--namesrv PORT`), the mirror, the transfer.

Each is a guest in a boot step of the *worker*: such a step lives as long as the process, while steps of the consumer
stop and start again with every lost connection to the task broker. The worker's pool requires the step, so the guest
starts before the pool and stops after it: no task ever runs without its engine.

A guest runs in a thread of its own; the worker's main thread is never blocked. When a guest fails by itself, the worker
ends with a code other than 0 and whoever supervises it decides what next.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ClassVar, Literal, NoReturn, cast

import uvloop
from celery import bootsteps
from celery.worker import state as worker_state
from celery.worker.components import Pool, Timer
from django.conf import settings

from ..engine.config import EngineConfig
from ..engine.disk import OsFiles
from ..engine.errors import BrokerError
from ..engine.fsck.survey import sizes_of
from ..mirror.cluster import follow
from ..mirror.entries import clusters
from ..redisson.transfer import transfer_service
from ..server.broker import BrokerService, Protection
from ..server.clock import Clocks
from ..server.listener import raise_descriptor_limit
from ..server.namesrv import NamesrvConfig, NamesrvService
from . import HostingRefused, access_config, name_servers, refuse_open_listening, simulation, tls_config

logger = logging.getLogger(__name__)

#: A fork would inherit the engine's threads, sockets and lock: only pools that do not fork may be beside it.
POOLS = ("celery.concurrency.thread", "celery.concurrency.solo")
#: Of the 10 s that a worker has after SIGTERM; Celery takes up to 2 s until it asks the steps to stop.
STOP_TIMEOUT_S = 7.0
START_TIMEOUT_S = 300.0
#: How long Celery's loop may sleep before it notices that it was asked to stop.
WAKE_INTERVAL_S = 0.5


class Guest(ABC):
    """A service in a thread of its own while a worker lives. `failed` may be called from any thread."""

    def __init__(self, failed: Callable[[str], None]) -> None:
        self._failed = failed

    @abstractmethod
    def start(self) -> str:
        """Start and return one line that says where it is; raises HostingRefused with a message for people."""

    @abstractmethod
    def stop(self) -> None:
        """Finish what is under way and stop within STOP_TIMEOUT_S."""


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
            why = f"Port {self._name} is taken by another program: take another one." if is_taken else str(error)
            self._started.set_exception(HostingRefused(why))
            return
        except HostingRefused as refusal:
            self._started.set_exception(refusal)
            return
        self._started.set_result(f"name service {service.address}")
        await self._stopping.wait()
        await service.stop()


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


class HostStep(bootsteps.StartStopStep):
    """A boot step that refuses unfit pools, starts its guest, stops it, and ends the worker when the guest fails."""

    requires = (Timer,)
    option: ClassVar[str]

    def __init__(self, worker: Any, **options: Any) -> None:
        self._wanted = options.get(self.option) or None
        self._guest: Guest | None = None
        self._failure: str | None = None

    def include_if(self, worker: Any) -> bool:
        """Tell whether the worker was asked to host."""
        return self._wanted is not None

    def create(self, worker: Any) -> None:
        """Refuse a pool that forks, before anything is opened."""
        if worker.pool_cls.__module__ not in POOLS:
            _refuse(f"--{self.option} needs a pool that does not fork: start the worker with -P threads.")
        self._guest = self.invite(self._note_failure)

    def invite(self, failed: Callable[[str], None]) -> Guest:
        """Make the guest of this step."""
        raise AssertionError("each step makes its own guest")

    def start(self, worker: Any) -> None:
        """Start the guest; the worker does not start without it."""
        assert self._guest is not None
        try:
            place = self._guest.start()
        except HostingRefused as refusal:
            _refuse(str(refusal))
        logger.info("hosting %s", place)
        if worker.timer is not None:
            worker.timer.call_repeatedly(WAKE_INTERVAL_S, lambda: None)

    def stop(self, worker: Any) -> None:
        """Stop the guest; it comes after the pool, and its own failure decides the exit code."""
        assert self._guest is not None
        self._guest.stop()
        if self._failure is not None:
            worker.exitcode = os.EX_SOFTWARE

    def terminate(self, worker: Any) -> None:
        """Stop as gently at a cold shutdown (SIGQUIT) as at a warm one, for the store's sake."""
        self.stop(worker)

    def _note_failure(self, reason: str) -> None:
        logger.critical("%s; this worker ends", reason)
        self._failure = reason
        setattr(worker_state, "should_stop", os.EX_SOFTWARE)  # noqa: B010 - its stubs know None only


class EngineStep(HostStep):
    """The step of `--engine NAME`: this worker is the broker NAME."""

    label = "Engine"
    option = "engine"

    def invite(self, failed: Callable[[str], None]) -> Guest:
        """Make the guest that is the broker of that name."""
        return EngineGuest(str(self._wanted), failed)


class NamesrvStep(HostStep):
    """The step of `--namesrv PORT`: this worker is a name service by itself."""

    label = "Namesrv"
    option = "namesrv"

    def invite(self, failed: Callable[[str], None]) -> Guest:
        """Make the guest that listens at that port."""
        return NamesrvGuest(str(self._wanted), failed)


class MirrorStep(HostStep):
    """The step of `--mirror`: this worker writes the mirror rows."""

    label = "Mirror"
    option = "mirror"

    def invite(self, failed: Callable[[str], None]) -> Guest:
        """Make the guest that is the mirror."""
        return MirrorGuest(failed)


class TransferStep(HostStep):
    """The step of `--transfer`: this worker moves what is due in Redisson's delayed queues."""

    label = "Transfer"
    option = "transfer"

    def invite(self, failed: Callable[[str], None]) -> Guest:
        """Make a guest that transfers; several workers may have one."""
        return TransferGuest(failed)


# Celery declares `requires` as one tuple or none; the pool's is a tuple.
Pool.requires = (*(Pool.requires or ()), EngineStep, NamesrvStep, MirrorStep, TransferStep)


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
        return f"Port {ports} on {settings.BROKER_HOST} is taken by another program: stop it, or set another port."
    return str(error)


def _refuse(message: str) -> NoReturn:
    logger.critical("%s", message)
    raise SystemExit(os.EX_CONFIG)
