"""Apache's Python client of the 5.x API (gRPC): an environment of its own, made once, and our program in it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

from tests.interop.jars import cache_directory
from tests.interop.process import Child
from tests.interop.programs import START_TIMEOUT_S, Event, Program

HERE = Path(__file__).parent / "python"
INSTALL_TIMEOUT_S = 600


class ClientMissing(RuntimeError):
    """The client could not be installed from PyPI."""


def interpreter() -> Path:
    """The Python of an environment with the pinned client, made on first use; raises ClientMissing."""
    pins = HERE / "grpc.txt"
    digest = hashlib.sha256(pins.read_bytes() + sys.version.encode()).hexdigest()[:12]
    home = cache_directory() / f"python-grpc-{digest}"
    python = home / "bin" / "python"
    if not (home / ".complete").exists():
        venv.create(home, clear=True, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
        done = subprocess.run(
            [*install, "-r", str(pins)], capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            raise ClientMissing(f"pip failed ({done.returncode}): {done.stderr[-2000:]}")
        (home / ".complete").touch()
    return python


class PythonGrpcClient(Program):
    """rocketmq-python-client."""

    def __init__(self, endpoints: str, topics: list[str], *, work: Path) -> None:
        label = f"python-grpc-{next(Program.numbers)}"
        home = work / label
        home.mkdir(parents=True)
        command = [str(interpreter()), "-u", str(HERE / "grpc_client.py"), endpoints, ",".join(topics)]
        # the client logs below HOME
        env = {"HOME": str(home), "PYTHONPATH": ""}
        self.child = Child(command, log=work / f"{label}.err", env=env)
        self.await_event("started", timeout_s=START_TIMEOUT_S)

    def send(
        self, topic: str, body: str, *, tag: str = "", key: str = "", group: str = "", delivery_ms: int | None = None
    ) -> Event:
        """Send one message: plain, FIFO (by its message group) or delayed (to the second)."""
        moment = "" if delivery_ms is None else delivery_ms
        return self.ask("send", topic, body, tag, key, group, moment, until="sent", timeout_s=60)[-1]

    def recall(self, topic: str, handle: str) -> str:
        """Take a delayed message back."""
        return str(self.ask("recall", topic, handle, until="recalled")[-1]["id"])

    def transaction(self, topic: str, body: str, end: str) -> None:
        """Send a half and `commit` it, `rollback` it, or `leave` it to the check, which commits."""
        self.ask("transaction", topic, body, end, until="ended", timeout_s=60)

    def receive(
        self, group: str, topic: str, *, expression: str = "*", count: int = 16, invisible_s: int = 30, wait_s: int = 3
    ) -> list[Event]:
        """What a simple consumer gets at once."""
        fields = ("receive", group, topic, expression, count, invisible_s, wait_s)
        return [event for event in self.ask(*fields, until="received", timeout_s=60) if event["event"] == "message"]

    def receive_all(self, group: str, topic: str, wanted: int, **how: int | str) -> list[Event]:
        """As many as wanted, from as many tries as it takes (20 at most)."""
        found: list[Event] = []
        for _ in range(20):
            found += self.receive(group, topic, **how)  # type: ignore[arg-type]  # the same names
            if len(found) >= wanted:
                return found
        raise AssertionError(f"{len(found)} of {wanted} messages")

    def ack(self, event: Event) -> None:
        """Acknowledge a message."""
        self.ask("ack", event["id"], until="acked")

    def change(self, event: Event, seconds: int) -> None:
        """Give a message another time."""
        self.ask("change", event["id"], seconds, until="changed")

    def push(self, group: str, topic: str) -> None:
        """Start a push consumer."""
        self.ask("push", group, topic, until="pushing", timeout_s=60)
