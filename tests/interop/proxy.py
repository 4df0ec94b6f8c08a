"""Apache RocketMQ's own proxy in front of a broker, and a client of the 5.x API (gRPC) that talks to it."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from tests.interop import jars
from tests.interop.process import Child
from tests.interop.programs import Event, Program
from tests.interop.servers import START_TIMEOUT_S, Server, says

GRPC_CLIENT = "5.0.8"


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


class Proxy:
    """ProxyStartup in cluster mode."""

    def __init__(self, server: Server, work: Path) -> None:
        self._grpc_port, remoting_port = free_port(), free_port()
        (work / "conf").mkdir(parents=True, exist_ok=True)
        settings = {
            "proxyMode": "CLUSTER",
            "rocketMQClusterName": "DefaultCluster",
            "namesrvAddr": server.namesrv,
            "grpcServerPort": self._grpc_port,
            "remotingListenPort": remoting_port,
            "localServeAddr": "127.0.0.1",
        }
        path = work / "conf" / "rmq-proxy.json"
        path.write_text(json.dumps(settings))
        library = f"{jars.library(jars.APACHE_VERSION)}/*"
        command = [
            jars.tool("java"), "-Xms256m", "-Xmx256m", "-XX:MaxDirectMemorySize=256m", f"-Duser.home={work}", "-cp",
            library, "org.apache.rocketmq.proxy.ProxyStartup", "-pm", "cluster", "-n", server.namesrv, "-pc", str(path),
        ]  # fmt: skip
        self.child = Child(command, log=work / "proxy.err", cwd=work, env={"ROCKETMQ_HOME": str(work)})
        self.child.wait_for(says("proxy startup successfully"), START_TIMEOUT_S, "the proxy")

    @property
    def endpoints(self) -> str:
        """Where its clients connect to."""
        return f"127.0.0.1:{self._grpc_port}"


class GrpcClient(Program):
    """rocketmq-client-java."""

    def __init__(self, endpoints: str, topics: list[str], *, work: Path) -> None:
        super().__init__("Grpc", [endpoints, ",".join(topics)], version=GRPC_CLIENT, work=work)

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
        """Send a half and `commit` it, `rollback` it, or `leave` it to the check."""
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
