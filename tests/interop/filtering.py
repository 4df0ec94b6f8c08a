"""The official client with SQL92 filters."""

from __future__ import annotations

from pathlib import Path

from tests.interop.process import ChildFailed
from tests.interop.programs import Program
from tests.interop.servers import Server


class JavaFilter(Program):
    """Sends messages with properties and reads them by filters."""

    def __init__(self, server: Server, version: str, *, work: Path) -> None:
        properties = ["rocketmq.client.rebalance.waitInterval=1000"]
        super().__init__("Filter", [server.namesrv], version=version, work=work, properties=properties)

    def send(self, topic: str, body: str, properties: dict[str, str]) -> None:
        """One message to queue 0."""
        pairs = [f"{name}={value}" for name, value in properties.items()]
        self.ask("send", topic, body, *pairs, until="sent", timeout_s=60)

    def pull(self, topic: str, expression: str) -> list[str]:
        """Bodies of all messages of queue 0 that match; an expression that is refused is told by its code."""
        try:
            return str(self.ask("pull", topic, expression, until="pulled")[-1]["bodies"]).split()
        except ChildFailed as failed:
            return [f"refused {refused_code(failed)}"]

    def consume(self, how: str, group: str, topic: str, expression: str) -> None:
        """Begin to consume, by `push` or `lite`."""
        self.ask(how, group, topic, expression, until="consuming", timeout_s=60)

    def bodies_of(self, group: str) -> list[str]:
        """What a group got so far."""
        return [str(event["body"]) for event in self.events("message") if event["group"] == group]

    def await_bodies(self, group: str, wanted: set[str]) -> None:
        """Return once the group got all of these."""
        self.child.wait_for(
            lambda _: wanted <= set(self.bodies_of(group)) or None, 60, f"{len(wanted)} messages for {group}"
        )


def refused_code(failed: ChildFailed) -> int:
    """The code of a failure that a program reported."""
    return int(str(failed).split(":")[0].split()[1])
