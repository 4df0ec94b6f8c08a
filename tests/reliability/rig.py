"""A broker, ours or Apache RocketMQ, to which things can be done: its disk, its clock, its connections, its process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from broker.engine.disk import OsFiles
from broker.engine.fsck.store import check_store
from tests.interop.process import Child, ChildFailed
from tests.interop.servers import ApacheServer, EscapementServer, StoreShape
from tests.reliability.clock import SteppedClock
from tests.reliability.cutting import CuttingProxy
from tests.reliability.faults import Fault
from tests.reliability.history import Recorder, now_ms

#: Where clients are told to find the broker, which listens on the other one.
TOLD, LISTENED = "127.0.0.2", "127.0.0.1"
STOP_TIMEOUT_S = 30.0
DISK_BYTES = 768 << 20
#: Retries go to levels 3, 4, 5 and so on; halves are asked about soon.
SHAPE = StoreShape(
    segment_size_bytes=4 << 20,
    queue_file_entries=5_000,
    index_slots=5_000,
    index_entries=20_000,
    delay_levels="1s 2s 3s 1s 1s 2s 10m 1h",
    heap="512m",
    transaction_timeout_ms=2_000,
    transaction_interval_ms=1_000,
    transaction_checks=200,
)


class LivingApache(ApacheServer):
    """Apache RocketMQ 5.5.0 that tells clients the proxy's address."""

    more_environment: Mapping[str, str] = MappingProxyType({})

    def _settings(self) -> dict[str, object]:
        return super()._settings() | {"brokerIP1": TOLD, "bindAddress": LISTENED}

    def _environment(self, label: str) -> dict[str, str]:
        # it lives for a minute: what is compiled with care would be thrown away
        options = f"-XX:TieredStopAtLevel=1 -XX:ErrorFile={self.work}/{label}-crash.log"
        crash = {"JAVA_TOOL_OPTIONS": options}
        return super()._environment(label) | crash | (dict(self.more_environment) if label == "broker" else {})

    @property
    def process(self) -> Child:
        """The broker's own."""
        assert self._broker is not None
        return self._broker


class LivingEscapement(EscapementServer):
    """Our broker, the same."""

    more_arguments = ("--advertise", TOLD)

    @property
    def process(self) -> Child:
        """The broker's own."""
        assert self._child is not None
        return self._child


KINDS: dict[str, type[LivingApache] | type[LivingEscapement]] = {
    "apache": LivingApache,
    "escapement": LivingEscapement,
}


class Rig:
    """One broker on a disk of its own, behind a proxy, with a clock that follows a file."""

    def __init__(
        self, kind: str, work: Path, recorder: Recorder, *, flush: str = "sync", has_disk: bool = True
    ) -> None:
        """`has_disk`: a small disk of its own, which can be filled; to mount it takes root."""
        self.kind, self._work, self._recorder = kind, work, recorder
        self._disk = work / "disk"
        self._has_disk = has_disk
        self._time = SteppedClock(work / "clock")
        shape = SHAPE if flush == "sync" else StoreShape(**{**_fields(SHAPE), "flush": flush})
        self.server = KINDS[kind](self._disk / "store", work / "broker", shape)
        self.server.more_environment = self._time.environment
        port = int(self.server.address.rpartition(":")[2])
        self.proxy = CuttingProxy((TOLD, port), (LISTENED, port))
        self.deaths = 0
        self._proxied = False

    @property
    def namesrv(self) -> str:
        """The address that clients are given."""
        return self.server.namesrv

    async def start(self) -> None:
        """Make the disk, start the broker and the proxy."""
        self._disk.mkdir(parents=True)
        if self._has_disk:
            await _run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "escapement-life", str(self._disk))
        await asyncio.to_thread(self.server.start)
        await self.proxy.start()
        self._proxied = True

    async def stop(self) -> None:
        """Stop the broker as an operator does, look at its store, and give the disk back."""
        status = await asyncio.to_thread(self.server.process.stop, STOP_TIMEOUT_S)
        if self.kind == "escapement":
            if status != 0:
                self._recorder.note("rig", "health", "stop", said=f"ended with {status} when it was asked to")
            report = await asyncio.to_thread(check_store, OsFiles(), str(self.server.root))
            if not report.is_sound:
                self._recorder.note("rig", "health", "store", said=f"{report.damages[:3]}")

    async def clear(self) -> None:
        """End and remove whatever is left."""
        await asyncio.to_thread(self.server.kill)
        if self._proxied:
            await self.proxy.close()
        if self._has_disk:
            await _run("umount", "-l", str(self._disk))

    async def do(self, fault: Fault, lasting: Lasting) -> None:
        """Do one thing to the broker, or two, and note them."""
        if fault.into is None:
            await self._do(fault, lasting)
        else:
            await asyncio.gather(self._do(fault, lasting), self._do_into(fault.into, lasting))
        await self.revive()

    async def _do_into(self, fault: Fault, lasting: Lasting) -> None:
        await lasting(fault.pause_s)
        await self._do(fault, lasting)

    async def _do(self, fault: Fault, lasting: Lasting) -> None:
        begin_ms = now_ms()
        await getattr(self, f"_{fault.kind}")(fault, lasting)
        self._recorder.note("rig", "fault", fault.kind, call_ms=begin_ms, amount_ms=fault.amount_ms)

    async def revive(self) -> None:
        """Start the broker again if it has ended by itself."""
        if self.server.process.process.poll() is None:
            return
        begin_ms = now_ms()
        self.deaths += 1
        status = await asyncio.to_thread(self.server.process.kill)
        await asyncio.to_thread(self._start_again)
        self._recorder.note("rig", "fault", "died", call_ms=begin_ms - 3_000, status=status)

    def heal(self) -> None:
        """Set the clock to the furthest that it ever was, so that whatever was to come in the run comes soon."""
        if self._time.offset_ms != self._time.furthest_ms:
            self.step(self._time.furthest_ms)

    async def _kill(self, fault: Fault, lasting: Lasting) -> None:
        os.kill(self.server.pid, signal.SIGKILL)
        await asyncio.to_thread(self.server.process.kill)
        await asyncio.to_thread(self._start_again)

    def _start_again(self) -> None:
        """Start it; an Apache RocketMQ may find its port not free yet."""
        try:
            self.server.start()
        except ChildFailed as failure:
            self._recorder.note("rig", "health", "start", said=f"did not start again: {str(failure)[-300:]}")
            raise

    async def _stop(self, fault: Fault, lasting: Lasting) -> None:
        os.kill(self.server.pid, signal.SIGSTOP)
        try:
            await lasting(fault.lasts_s)
        finally:
            os.kill(self.server.pid, signal.SIGCONT)

    async def _full(self, fault: Fault, lasting: Lasting) -> None:
        ballast = self._disk / "ballast"
        try:
            _fill(ballast)
            await lasting(fault.lasts_s)
        finally:
            ballast.unlink()

    async def _starved(self, fault: Fault, lasting: Lasting) -> None:
        ballast = self._disk / "ballast"
        try:
            _fill(ballast)
            await lasting(fault.lasts_s)
            os.kill(self.server.pid, signal.SIGKILL)
            await asyncio.to_thread(self.server.process.kill)
        finally:
            ballast.unlink()
        await asyncio.to_thread(self._start_again)

    async def _restart(self, fault: Fault, lasting: Lasting) -> None:
        status = await asyncio.to_thread(self.server.process.stop, STOP_TIMEOUT_S)
        if self.kind == "escapement" and status != 0:
            self._recorder.note("rig", "health", "stop", said=f"ended with {status} when it was asked to")
        await asyncio.to_thread(self._start_again)

    async def _slow(self, fault: Fault, lasting: Lasting) -> None:
        calls = "fdatasync,fsync,msync,sync_file_range"
        command = [
            "strace", "-f", "-qq", "-o", "/dev/null", "-p", str(self.server.pid), "-e", f"trace={calls}",
            "-e", f"inject={calls}:delay_enter={fault.amount_ms * 1000}",
        ]  # fmt: skip
        tracer = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
        try:
            await lasting(fault.lasts_s)
        finally:
            # asked to end it waits for those it follows, for ever for one that was killed meanwhile
            with suppress(ProcessLookupError):
                tracer.kill()
            await tracer.wait()

    async def _clock(self, fault: Fault, lasting: Lasting) -> None:
        self.step(fault.amount_ms)
        await lasting(fault.lasts_s)

    async def _cut(self, fault: Fault, lasting: Lasting) -> None:
        self.proxy.refuse(True)
        self.proxy.cut()
        try:
            await lasting(fault.lasts_s / 2)
        finally:
            self.proxy.refuse(False)

    async def _mute(self, fault: Fault, lasting: Lasting) -> None:
        self.proxy.mute(True)
        try:
            await lasting(fault.lasts_s)
        finally:
            self.proxy.mute(False)

    def step(self, offset_ms: int) -> None:
        """Set the broker's clock to so far from the machine's."""
        begin_ms = now_ms()
        self._time.step(offset_ms)
        self._recorder.note("rig", "clock", "", call_ms=begin_ms, step_ms=offset_ms)


def _fill(ballast: Path) -> None:
    """Take all that is free where this file is."""
    with ballast.open("wb") as file:
        for chunk in (64 << 20, 1 << 20, 4_096):
            with suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, chunk)


def _fields(shape: StoreShape) -> dict[str, Any]:
    return {name: getattr(shape, name) for name in StoreShape.__dataclass_fields__}


async def _run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command)
    if await process.wait() != 0:
        raise subprocess.CalledProcessError(process.returncode or 1, command)


class Lasting:
    """Waits for a while, less if the run is to end."""

    def __init__(self) -> None:
        self.over = asyncio.Event()

    async def __call__(self, seconds: float) -> bool:
        """Whether the run goes on."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.over.wait(), seconds)
        return not self.over.is_set()
