"""Clients of the 5.x API (gRPC): Apache's own in Java, and what the programs on any of them can be asked."""

from __future__ import annotations

from pathlib import Path

from tests.interop.programs import Event, Program

GRPC_CLIENT = "5.0.8"


class GrpcProgram(Program):
    """A producer, simple consumers and push consumers at one proxy."""

    def send(
        self, topic: str, body: str, *, tag: str = "", key: str = "", group: str = "", delivery_ms: int | None = None
    ) -> Event:
        """Send one message: plain, FIFO (by its message group) or delayed."""
        moment = "" if delivery_ms is None else delivery_ms
        return self.ask("send", topic, body, tag, key, group, moment, until="sent", timeout_s=60)[-1]

    def recall(self, topic: str, handle: str) -> str:
        """Take a delayed message back."""
        return str(self.ask("recall", topic, handle, until="recalled")[-1]["id"])

    def transaction(self, topic: str, body: str, end: str) -> None:
        """Send a half and `commit` it, `rollback` it, or `leave` it to the check, which commits."""
        self.ask("transaction", topic, body, end, until="ended", timeout_s=60)

    def receive(
        self,
        group: str,
        topic: str,
        *,
        expression: str = "*",
        count: int = 16,
        invisible_ms: int = 30_000,
        wait_s: int = 3,
    ) -> list[Event]:
        """What a simple consumer gets at once."""
        fields = ("receive", group, topic, expression, count, invisible_ms, wait_s)
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
        """Acknowledge a message of the last receive."""
        self.ask("ack", event["id"], until="acked")

    def change(self, event: Event, invisible_ms: int) -> None:
        """Give a message of the last receive another time."""
        self.ask("change", event["id"], invisible_ms, until="changed")

    def push(self, group: str, topic: str) -> None:
        """Start a push consumer."""
        self.ask("push", group, topic, until="pushing", timeout_s=60)


class GrpcClient(GrpcProgram):
    """rocketmq-client-java."""

    def __init__(self, endpoints: str, topics: list[str], *, work: Path) -> None:
        super().__init__("Grpc", [endpoints, ",".join(topics)], version=GRPC_CLIENT, work=work)
