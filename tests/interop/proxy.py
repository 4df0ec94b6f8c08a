"""Apache RocketMQ's own proxy in front of a broker."""

from __future__ import annotations

import json
from pathlib import Path

from tests.interop import jars
from tests.interop.process import Child
from tests.interop.servers import START_TIMEOUT_S, Server, says
from tests.ports import free_ports


class Proxy:
    """ProxyStartup in cluster mode."""

    def __init__(self, server: Server, work: Path) -> None:
        self._grpc_port, remoting_port = free_ports(1), free_ports(1)
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
