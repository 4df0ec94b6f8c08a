"""Java programs that pop: the official push consumer in POP mode, and the class by which RocketMQ's proxy asks."""

from __future__ import annotations

from pathlib import Path

from tests.interop.programs import Event, Program
from tests.interop.servers import Server

CLIENT = "5.5.0"
BROKER = "broker-a"


class JavaPopConsumer(Program):
    """DefaultMQPushConsumer whose queues the broker assigns, switched to popping; invisible time 5 s."""

    def __init__(
        self, server: Server, group: str, topic: str, *, work: Path, mode: str = "accept", instance: str = "one"
    ) -> None:
        arguments = [server.namesrv, server.address, group, topic, "*", mode, instance]
        properties = ["rocketmq.client.rebalance.waitInterval=1000"]
        super().__init__("PopConsume", arguments, version=CLIENT, work=work, properties=properties)

    def receive(self, count: int, timeout_s: float = 40) -> list[Event]:
        """The messages so far, once there are `count`."""
        return self.await_events("message", count, timeout_s=timeout_s)


class JavaPopper(Program):
    """MQClientAPIExt; what it answers is told as it is."""

    def __init__(self, server: Server, group: str, topic: str, *, work: Path) -> None:
        super().__init__("PopByHand", [server.address, BROKER, group], version=CLIENT, work=work)
        self.topic = topic

    def pop(
        self, count: int = 32, *, invisible_ms: int = 60_000, poll_ms: int = 0, queue: int = -1, order: bool = False,
        expression: str = "*", attempt: str = "",
    ) -> list[Event]:  # fmt: skip
        """What one pop got; the events hold its handles."""
        fields = ("pop", self.topic, queue, count, invisible_ms, poll_ms, str(order).lower(), expression, attempt)
        *messages, popped = self.ask(*fields, until="popped", timeout_s=60)
        assert popped["status"] == ("FOUND" if messages else "POLLING_NOT_FOUND")
        return [event for event in messages if event["event"] == "message"]

    def pop_all(self, count: int, *, seconds: float = 40, **wanted: object) -> list[Event]:
        """Messages of as many pops as it takes to have `count`, each waiting at the broker."""
        found: list[Event] = []
        for _ in range(int(seconds / 2)):
            found += self.pop(poll_ms=2_000, **wanted)  # type: ignore[arg-type]  # the same names
            if len(found) >= count:
                return found
        raise AssertionError(f"{len(found)} of {count} messages within {seconds} s")

    def ack(self, event: Event) -> str:
        """Acknowledge one message; the client's word for what became of it."""
        return str(self.ask("ack", self.topic, event["handle"], until="acked")[-1]["status"])

    def ack_many(self, events: list[Event]) -> str:
        """Acknowledge several with one request."""
        handles = ",".join(event["handle"] for event in events)
        return str(self.ask("ack-many", self.topic, handles, until="acked")[-1]["status"])

    def change(self, event: Event, invisible_ms: int) -> Event:
        """Give a message another time; the event with its new handle."""
        answer = self.ask("change", self.topic, event["handle"], invisible_ms, until="changed")[-1]
        assert answer["status"] == "OK"
        return event | {"handle": answer["handle"]}

    def has_messages(self, poll_ms: int) -> bool:
        """Whether a pop would get something, within that time."""
        return bool(self.ask("notify", self.topic, poll_ms, until="notified")[-1]["has"])


def bodies(events: list[Event]) -> list[str]:
    """Their bodies, sorted."""
    return sorted(event["body"] for event in events)
