"""Apache RocketMQ and our broker behind one face: start, stop, kill, addresses, the same store shape."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, TypeVar

from tests.interop import jars
from tests.interop.process import Child, ChildFailed
from tests.interop.readiness import await_registration, await_runtime
from tests.ports import free_ports

START_TIMEOUT_S = 180
LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


@dataclass(frozen=True, slots=True)
class StoreShape:
    """Sizes and durability that both brokers must agree on to open one store."""

    segment_size_bytes: int = 64 << 20
    queue_file_entries: int = 300_000
    index_slots: int = 50_000
    index_entries: int = 200_000
    delay_levels: str = LEVELS
    flush: str = "sync"
    heap: str = "1g"
    transaction_timeout_ms: int = 6_000
    transaction_interval_ms: int = 30_000
    transaction_checks: int = 15


class Server(Protocol):
    """A name server and a broker on loopback, on one store directory."""

    name: str
    root: Path
    shape: StoreShape

    @property
    def namesrv(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def pid(self) -> int: ...
    def start(self) -> None: ...
    def prepare(self) -> None: ...
    def launch(self) -> Child: ...
    def stop(self) -> int: ...
    def kill(self) -> None: ...


S = TypeVar("S", bound=Server)


@contextmanager
def served(server: S) -> Iterator[S]:
    """A server that runs for a block, and is gone afterwards however the block, or the start, ends."""
    try:
        server.start()
        yield server
    finally:
        server.kill()


class ApacheServer:
    """Apache RocketMQ 5.5.0: NamesrvStartup and BrokerStartup in two JVMs."""

    name = "apache"

    def __init__(self, root: Path, work: Path, shape: StoreShape) -> None:
        self.root, self.work, self.shape = root, work, shape
        self._namesrv_port = free_ports(1)
        self._broker_port = free_ports(2, below=2)
        self._namesrv: Child | None = None
        self._broker: Child | None = None

    @property
    def namesrv(self) -> str:
        return f"127.0.0.1:{self._namesrv_port}"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._broker_port}"

    @property
    def pid(self) -> int:
        assert self._broker is not None
        return self._broker.pid

    def start(self) -> None:
        """Start both JVMs and wait for the broker's own word that it is up."""
        self.prepare()
        self.launch().wait_for(says("boot success"), START_TIMEOUT_S, "the broker")
        await_registration(self.namesrv, START_TIMEOUT_S)
        await_runtime(self.address, START_TIMEOUT_S)

    def prepare(self) -> None:
        """Start the name server and write the broker's settings."""
        (self.work / "conf").mkdir(parents=True, exist_ok=True)
        if self._namesrv is None:
            self._start_namesrv()
        settings = self.work / "broker.conf"
        settings.write_text("".join(f"{name}={value}\n" for name, value in self._settings().items()))

    def launch(self) -> Child:
        """Start the broker's JVM without waiting for anything."""
        heap = [self.shape.heap, "-XX:MaxDirectMemorySize=2g", "-XX:+UseG1GC"]
        arguments = ["-c", str(self.work / "broker.conf"), "-n", self.namesrv]
        self._broker = self._java("broker", "broker.BrokerStartup", heap, arguments)
        return self._broker

    def stop(self) -> int:
        """Stop the broker cleanly, then the name server."""
        status = self._broker.stop() if self._broker else 0
        self._stop_namesrv()
        return status

    def kill(self) -> None:
        """Kill the broker; the name server holds nothing worth keeping and stops too."""
        if self._broker:
            self._broker.kill()
        self._stop_namesrv()

    def _start_namesrv(self) -> None:
        """Start the name server; once more on another port if somebody else came to listen on its own meanwhile."""
        try:
            self._launch_namesrv()
        except ChildFailed as failure:
            if "Address already in use" not in str(failure):
                raise
            self._stop_namesrv()
            self._namesrv_port = free_ports(1)
            self._launch_namesrv()

    def _launch_namesrv(self) -> None:
        settings = self.work / "namesrv.conf"
        settings.write_text(f"listenPort={self._namesrv_port}\n")
        self._namesrv = self._java("namesrv", "namesrv.NamesrvStartup", ["256m"], ["-c", str(settings)])
        self._namesrv.wait_for(says("boot success"), START_TIMEOUT_S, "the name server")

    def _stop_namesrv(self) -> None:
        if self._namesrv:
            self._namesrv.stop()
        self._namesrv = None

    def _java(self, label: str, main: str, heap: list[str], arguments: list[str]) -> Child:
        options = [f"-Xms{heap[0]}", f"-Xmx{heap[0]}", *heap[1:], f"-Duser.home={self.work}"]
        library = f"{jars.library(jars.APACHE_VERSION)}/*"
        command = [jars.tool("java"), *options, "-cp", library, f"org.apache.rocketmq.{main}", *arguments]
        return Child(command, log=self.work / f"{label}.err", env=self._environment(label))

    def _environment(self, label: str) -> dict[str, str]:
        """What is set for one of the two processes."""
        return {"ROCKETMQ_HOME": str(self.work)}

    def _settings(self) -> dict[str, object]:
        shape = self.shape
        return {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerId": 0,
            "brokerRole": "ASYNC_MASTER",
            "flushDiskType": "SYNC_FLUSH" if shape.flush == "sync" else "ASYNC_FLUSH",
            "brokerIP1": "127.0.0.1",
            "namesrvAddr": self.namesrv,
            "listenPort": self._broker_port,
            "haListenPort": self._broker_port + 1,
            "storePathRootDir": self.root,
            "storePathCommitLog": self.root / "commitlog",
            "mappedFileSizeCommitLog": shape.segment_size_bytes,
            "mappedFileSizeConsumeQueue": shape.queue_file_entries * 20,
            "maxHashSlotNum": shape.index_slots,
            "maxIndexNum": shape.index_entries,
            "messageDelayLevel": shape.delay_levels,
            "enabledAppendPropCRC": "true",
            "autoCreateTopicEnable": "true",
            "enablePropertyFilter": "true",
            "defaultTopicQueueNums": 4,
            "diskMaxUsedSpaceRatio": 95,
            "flushDelayOffsetInterval": 1000,
            "flushConsumerOffsetInterval": 1000,
            "waitTimeMillsInSendQueue": 20000,
            "transactionTimeOut": shape.transaction_timeout_ms,
            "transactionCheckInterval": shape.transaction_interval_ms,
            "transactionCheckMax": shape.transaction_checks,
            # as in RocketMQ half of the time-out: a half that was decided in time is not asked about
            "transactionOpBatchInterval": shape.transaction_timeout_ms // 2,
            "recallMessageEnable": "true",
        }


class EscapementServer:
    """Our broker as `python -m broker.server` runs it: name service and broker in one process."""

    name = "escapement"
    #: where its code is, and the module of it that is run
    tree = jars.REPOSITORY
    module = "broker.server"
    more_arguments: tuple[str, ...] = ()
    more_environment: Mapping[str, str] = MappingProxyType({})

    def __init__(self, root: Path, work: Path, shape: StoreShape) -> None:
        self.root, self.work, self.shape = root, work, shape
        self._namesrv_port = free_ports(1)
        self._broker_port = free_ports(1, below=2)
        self._child: Child | None = None

    @property
    def namesrv(self) -> str:
        return f"127.0.0.1:{self._namesrv_port}"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._broker_port}"

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def start(self) -> None:
        """Start the process and wait until it says that it listens."""
        self.prepare()
        self.launch().wait_for(says("name service"), START_TIMEOUT_S, "our broker")

    def prepare(self) -> None:
        """Make the directory of its log."""
        self.work.mkdir(parents=True, exist_ok=True)

    def launch(self) -> Child:
        """Start the process without waiting for anything."""
        arguments = [
            *("--root", str(self.root), "--port", str(self._broker_port), "--namesrv-port", str(self._namesrv_port)),
            *("--flush", self.shape.flush, "--segment-size-bytes", str(self.shape.segment_size_bytes)),
            *("--queue-file-entries", str(self.shape.queue_file_entries)),
            *("--index-slots", str(self.shape.index_slots), "--index-entries", str(self.shape.index_entries)),
            *("--delay-levels", self.shape.delay_levels),
            *("--transaction-timeout-ms", str(self.shape.transaction_timeout_ms)),
            *("--transaction-interval-ms", str(self.shape.transaction_interval_ms)),
            *("--transaction-checks", str(self.shape.transaction_checks)),
            *self.more_arguments,
        ]
        # nothing is measured beside what a test or a comparison measures
        quiet = {"ESCAPEMENT_SELF_TEST": "0"}
        env = {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(self.tree), **quiet, **self.more_environment}
        command = [sys.executable, "-m", self.module, *arguments]
        self._child = Child(command, log=self.work / "broker.err", env=env, cwd=self.tree)
        return self._child

    def stop(self) -> int:
        """TERM and the exit status: 0 is a clean stop."""
        return self._child.stop() if self._child else 0

    def kill(self) -> None:
        """KILL."""
        if self._child:
            self._child.kill()


SERVERS: dict[str, type[ApacheServer] | type[EscapementServer]] = {
    "apache": ApacheServer,
    "escapement": EscapementServer,
}


def copy_store(source: Path, target: Path) -> Path:
    """A copy of a stopped store for another broker; sparse files stay sparse."""
    shutil.copytree(source, target, copy_function=copy_sparse)
    return target


def copy_sparse(source: str, target: str) -> str:
    """Copy one file without writing its runs of zeros (a store's allocated tail)."""
    block = 1 << 16
    with open(source, "rb") as reading, open(target, "wb") as writing:
        while data := reading.read(block):
            if data.count(0) == len(data):
                writing.seek(len(data), os.SEEK_CUR)
            else:
                writing.write(data)
        writing.truncate(os.fstat(reading.fileno()).st_size)
    return target


def says(text: str) -> Callable[[list[str]], str | None]:
    """A look at the lines that answers the first one holding `text`."""

    def look(lines: list[str]) -> str | None:
        return next((line for line in lines if text in line), None)

    return look
