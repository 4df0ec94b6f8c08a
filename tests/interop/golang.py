"""Apache's Go client: our program on it, built once, and its sub-commands from Python."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from broker.client.remoting import RemotingClient
from broker.rocketmq.frame import Command
from tests.interop.jars import cache_directory, made_once
from tests.interop.programs import Event, Program, Sender
from tests.interop.servers import Server

SOURCES = Path(__file__).parent / "go"
BUILD_TIMEOUT_S = 600
#: A Go consumer's first round of sharing out queues, heartbeats and routes; its later ones are 20 and 30 s apart.
ARRIVAL_TIMEOUT_S = 60


class GoMissing(RuntimeError):
    """Go is not installed (Debian's package is golang-go), or the program could not be built."""


def binary() -> Path:
    """Our program, built on first use from the committed sources and the modules they pin; raises GoMissing."""
    go = shutil.which("go")
    if go is None:
        raise GoMissing("go is not on the PATH: install Go 1.19 or newer")
    sources = sorted([*SOURCES.glob("*.go"), *SOURCES.glob("go.*")])
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    built = cache_directory() / f"go-{digest}" / "interop"
    with made_once(built.parent) as is_wanted:
        if is_wanted:
            build = subprocess.run(
                [go, "build", "-mod=readonly", "-o", str(built), "."],
                cwd=SOURCES, env={**os.environ, "CGO_ENABLED": "0"}, capture_output=True, text=True,
                timeout=BUILD_TIMEOUT_S, check=False,
            )  # fmt: skip
            if build.returncode != 0:
                raise GoMissing(f"go build failed ({build.returncode}): {build.stderr[-2000:]}")
    return built


class GoProgram(Program):
    """One sub-command of `tests/interop/go` on one server; `flags` are its own, by name."""

    def __init__(self, command: str, server: Server, *, work: Path, **flags: object) -> None:
        label = f"go-{command}-{next(Program.numbers)}"
        said = {"namesrv": server.namesrv} | {name.replace("_", "-"): value for name, value in flags.items()}
        arguments = [f"-{name}={str(value).lower() if value is True else value}" for name, value in said.items()]
        home = work / label
        home.mkdir(parents=True)
        # offsets of broadcasting consumers are kept below HOME
        self._start([str(binary()), command, *arguments], label, work=work, env={"HOME": str(home)})


class GoProducer(GoProgram, Sender):
    """rocketmq.NewProducer."""

    says_properties = True

    def __init__(self, server: Server, group: str, *, work: Path, **flags: object) -> None:
        super().__init__("produce", server, work=work, group=group, **flags)


class GoTransactions(GoProgram):
    """rocketmq.NewTransactionProducer."""

    def __init__(self, server: Server, group: str, *, work: Path, **flags: object) -> None:
        super().__init__("transact", server, work=work, group=group, **flags)

    def send(self, topic: str, body: str, *, ends: str, checked: str = "unknown") -> Event:
        """Send a half that its sender ends so (commit, rollback, unknown), and so when it is asked."""
        return self.ask(topic, ends, checked, body, until="sent")[-1]


class GoConsumer(GoProgram):
    """rocketmq.NewPushConsumer."""

    def __init__(self, server: Server, group: str, topic: str, *, work: Path, **flags: object) -> None:
        super().__init__("consume", server, work=work, group=group, topic=topic, **flags)

    def receive(self, count: int, timeout_s: float = ARRIVAL_TIMEOUT_S) -> list[Event]:
        """The messages so far, once there are `count`."""
        return self.await_events("message", count, timeout_s=timeout_s)

    def await_bodies(self, wanted: set[str], timeout_s: float = ARRIVAL_TIMEOUT_S) -> None:
        """Return once every one of these bodies has arrived at least once."""

        def look(_: list[str]) -> bool | None:
            return wanted <= {event["body"] for event in self.events("message")} or None

        self.child.wait_for(look, timeout_s, f"all of {len(wanted)} bodies")

    def await_queues(self, wanted: int, timeout_s: float = ARRIVAL_TIMEOUT_S) -> list[int]:
        """The assigned queues, once there are `wanted`."""

        def look(_: list[str]) -> list[int] | None:
            changes = self.events("queues")
            return changes[-1]["queues"] if changes and len(changes[-1]["queues"]) == wanted else None

        return self.child.wait_for(look, timeout_s, f"{wanted} queues")


class GoPuller(GoProgram):
    """rocketmq.NewPullConsumer."""

    def __init__(self, server: Server, group: str, topic: str, *, work: Path, **flags: object) -> None:
        super().__init__("pull", server, work=work, group=group, topic=topic, **flags)


class GoAdmin(GoProgram):
    """admin.NewAdmin."""

    def __init__(self, server: Server, *, work: Path, **flags: object) -> None:
        super().__init__("admin", server, work=work, **flags)

    def names(self, *request: object) -> list[str]:
        """What it says to a request."""
        names: list[str] = self.ask(*request, until="done")[-1]["names"]
        return names


def ask_broker(server: Server, code: int, **ext: str) -> Command:
    """The broker's answer to a request that has no place in a client."""

    async def ask() -> Command:
        client = RemotingClient()
        try:
            return await client.invoke(server.address, code, ext, b"", 15_000)
        finally:
            await client.close()

    return asyncio.run(ask())
