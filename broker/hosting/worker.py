"""Celery workers that host something: the engine with its remoting server (`--engine NAME`), a name service by itself
(`--namesrv PORT`), the mirror, the transfer.

Each is a guest in a boot step of the *worker*: such a step lives as long as the process, while steps of the consumer
stop and start again with every lost connection to the task broker. The worker's pool requires the step, so the guest
starts before the pool and stops after it: no task ever runs without its engine.

Every worker of the app knows every step, so a guest is loaded only by the step that invites it: what hosts the mirror
needs no engine in its memory.

A guest runs in a thread of its own; the worker's main thread is never blocked. When a guest fails by itself, the worker
ends with a code other than 0 and whoever supervises it decides what next.
"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar, NoReturn
from weakref import WeakSet

from celery import bootsteps
from celery.worker import state as worker_state
from celery.worker.components import Pool, Timer

from . import HostingRefused

logger = logging.getLogger(__name__)

#: A fork would inherit the engine's threads, sockets and lock: only pools that do not fork may be beside it.
POOLS = ("celery.concurrency.thread", "celery.concurrency.solo")
#: Of the 10 s that a worker has after SIGTERM; Celery takes up to 2 s until it asks the steps to stop.
STOP_TIMEOUT_S = 7.0
#: How long Celery's loop may sleep before it notices that it was asked to stop.
WAKE_INTERVAL_S = 0.5
#: Timers that wake such a loop already: one beat is enough for all guests of a worker.
_waking: WeakSet[Any] = WeakSet()


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
        if worker.timer is not None and worker.timer not in _waking:
            _waking.add(worker.timer)
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
        return _made("servers", "EngineGuest", str(self._wanted), failed)


class NamesrvStep(HostStep):
    """The step of `--namesrv PORT`: this worker is a name service by itself."""

    label = "Namesrv"
    option = "namesrv"

    def invite(self, failed: Callable[[str], None]) -> Guest:
        """Make the guest that listens at that port."""
        return _made("servers", "NamesrvGuest", str(self._wanted), failed)


class MirrorStep(HostStep):
    """The step of `--mirror`: this worker writes the mirror rows."""

    label = "Mirror"
    option = "mirror"

    def invite(self, failed: Callable[[str], None]) -> Guest:
        """Make the guest that is the mirror."""
        return _made("guests", "MirrorGuest", failed)


class TransferStep(HostStep):
    """The step of `--transfer`: this worker moves what is due in Redisson's delayed queues."""

    label = "Transfer"
    option = "transfer"

    def invite(self, failed: Callable[[str], None]) -> Guest:
        """Make a guest that transfers; several workers may have one."""
        return _made("guests", "TransferGuest", failed)


# Celery declares `requires` as one tuple or none; the pool's is a tuple.
Pool.requires = (*(Pool.requires or ()), EngineStep, NamesrvStep, MirrorStep, TransferStep)


def _made(module: str, name: str, *arguments: Any) -> Guest:
    guest: Guest = getattr(import_module(f".{module}", __package__), name)(*arguments)
    return guest


def _refuse(message: str) -> NoReturn:
    logger.critical("%s", message)
    raise SystemExit(os.EX_CONFIG)
