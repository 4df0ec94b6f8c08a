"""Several real brokers in the tests' process, and one name service that lists them: `Cluster(2)`.

Each broker is a `BrokerThread` with a name service of its own. The cluster's name service answers with what those say
of brokers and topics, taken together; of a broker that is away it says what it said last, as a name service does whose
broker has not been missed yet, until `delist`. `slave` adds one more process to a broker: real, with a store of its own
as a slave's is, but nothing is replicated. It can be stopped and started again, too.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import msgspec

from broker.client._answers import read_object
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command, FrameBuffer, decode, encode
from broker.testing import BrokerThread, small_store

ASK_TIMEOUT_S = 3.0
_READ_BYTES = 1 << 16

Fields = dict[str, Any]


class Cluster:
    """`count` brokers, named broker-a, broker-b and so on; a broker is had by its name: `cluster["broker-a"]`.

    >>> with Cluster(2) as cluster, Admin(cluster.namesrv) as admin:
    ...     cluster["broker-b"].stop()
    ...     assert [broker.name for broker in admin.brokers()] == ["broker-a", "broker-b"]
    """

    def __init__(self, count: int = 2, *, cluster: str = "DefaultCluster", **settings: Any) -> None:
        """`settings`: of the stores (EngineConfig)."""
        self._directory = TemporaryDirectory(prefix="escapement-cluster-")
        self._settings = {"cluster_name": cluster, **settings}
        names = [f"broker-{chr(ord('a') + number)}" for number in range(count)]
        #: the processes by broker and number: 0 the master
        self.processes: dict[tuple[str, int], BrokerThread] = {(name, 0): self._made(name, 0) for name in names}
        self.name_service = NameService(self.processes)

    def __getitem__(self, name: str) -> BrokerThread:
        """The master of this name."""
        return self.processes[name, 0]

    def __enter__(self) -> Self:
        for process in self.processes.values():
            process.start()
        self.name_service.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.name_service.stop()
        for process in self.processes.values():
            process.stop()
        self._directory.cleanup()

    @property
    def namesrv(self) -> str:
        """The address that clients are given."""
        return self.name_service.address

    @property
    def names(self) -> list[str]:
        """The names of all brokers."""
        return sorted({name for name, _ in self.processes})

    def store(self, name: str) -> Path:
        """The directory of a master's store."""
        return self._directory_of(name, 0) / "store"

    def slave(self, name: str, number: int = 1) -> BrokerThread:
        """Start one more process of this broker, and list it."""
        process = self.processes[name, number] = self._made(name, number)
        process.start()
        return process

    def add(self, name: str) -> BrokerThread:
        """Start one more broker, and list it."""
        return self.slave(name, 0)

    def delist(self, name: str, number: int = 0) -> None:
        """Stop a process, and list it no more."""
        self.processes.pop((name, number)).stop()

    def _directory_of(self, name: str, number: int) -> Path:
        return Path(self._directory.name) / f"{name}-{number}"

    def _made(self, name: str, number: int) -> BrokerThread:
        config = small_store(self._directory_of(name, number))
        return BrokerThread(replace(config, broker_name=name, broker_id=number, **self._settings))


class NameService:
    """A name service that says what the brokers' own say, taken together. It may be stopped and started again."""

    def __init__(self, processes: Mapping[tuple[str, int], BrokerThread]) -> None:
        self._processes = processes
        self._known: dict[tuple[str, int, int, str], Fields | None] = {}
        self._server: _Server | None = None
        self._port = 0
        #: codes of the requests that were asked, in order
        self.asked: list[int] = []

    @property
    def address(self) -> str:
        """Where it listens, host:port."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Listen, on the same port each time."""
        self._server = _Server(("127.0.0.1", self._port), self.answer)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), name="name-service", daemon=True).start()

    def stop(self) -> None:
        """Listen no more and end all connections; idempotent."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            server.hang_up()

    def answer(self, request: Command) -> Command:
        """Return the answer to a request."""
        self.asked.append(request.code)
        topic = request.ext.get("topic", "")
        if request.code == Request.GET_BROKER_CLUSTER_INFO:
            return request.answer(body=msgspec.json.encode(self._cluster()))
        if request.code == Request.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
            said = [self._said(name, number, request.code) for name, number in sorted(self._processes)]
            topics = {topic for one in said if one is not None for topic in one["topicList"]}
            return request.answer(body=msgspec.json.encode({"topicList": sorted(topics)}))
        if request.code == Request.GET_ROUTEINFO_BY_TOPIC:
            route = self._route(topic)
            if route is None:
                return request.answer(code=Answer.TOPIC_NOT_EXIST, remark=f"No topic route info for {topic}")
            return request.answer(body=msgspec.json.encode(route))
        if request.code == Request.DELETE_TOPIC_IN_NAMESRV:
            return request.answer()
        return request.answer(code=Answer.REQUEST_CODE_NOT_SUPPORTED, remark=f"request {request.code} not supported")

    def _cluster(self) -> Fields:
        brokers: dict[str, Fields] = {}
        for name, number in sorted(self._processes):
            told = self._said(name, number, Request.GET_BROKER_CLUSTER_INFO)
            if told is not None:
                about = told["brokerAddrTable"][name]
                brokers.setdefault(name, about)["brokerAddrs"] |= about["brokerAddrs"]
        clusters: dict[str, list[str]] = {}
        for name, about in brokers.items():
            clusters.setdefault(about["cluster"], []).append(name)
        return {"brokerAddrTable": brokers, "clusterAddrTable": clusters}

    def _route(self, topic: str) -> Fields | None:
        brokers: dict[str, Fields] = {}
        queues: dict[str, Fields] = {}
        for name, number in sorted(self._processes):
            told = self._said(name, number, Request.GET_ROUTEINFO_BY_TOPIC, topic)
            # a slave has the topics of its master
            mine = told or (brokers.get(name) and self._said(name, number, Request.GET_BROKER_CLUSTER_INFO))
            if not mine:
                continue
            data = mine["brokerDatas"][0] if told else mine["brokerAddrTable"][name]
            brokers.setdefault(name, data)["brokerAddrs"] |= data["brokerAddrs"]
            if told:
                queues.setdefault(name, told["queueDatas"][0])
        if not queues:
            return None
        return {
            "brokerDatas": list(brokers.values()), "filterServerTable": {}, "queueDatas": list(queues.values()),
        }  # fmt: skip

    def _said(self, name: str, number: int, code: int, topic: str = "") -> Fields | None:
        """What the process' own name service says, or said last; None where it knows no such topic."""
        key = (name, number, code, topic)
        process = self._processes[name, number]
        try:
            answer = ask(process.namesrv, Command(code, {"topic": topic}))
        except (OSError, ValueError):
            return _copy(self._known.get(key))
        self._known[key] = read_object(answer.body) if answer.code == Answer.SUCCESS else None
        return _copy(self._known[key])


def _copy(said: Fields | None) -> Fields | None:
    return None if said is None else msgspec.json.decode(msgspec.json.encode(said))


def ask(address: str, request: Command) -> Command:
    """Ask on a connection of its own; raises OSError."""
    host, _, port = address.rpartition(":")
    frames = FrameBuffer()
    with socket.create_connection((host.strip("[]"), int(port)), timeout=ASK_TIMEOUT_S) as connection:
        connection.sendall(encode(request))
        while chunk := connection.recv(_READ_BYTES):
            for frame in frames.feed(chunk):
                return decode(frame)
    raise ConnectionError(f"{address} hung up")


class _Server(socketserver.ThreadingTCPServer):
    """A thread a connection."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], answer: Any) -> None:
        self.answer = answer
        self._open: set[socket.socket] = set()
        super().__init__(address, _Connection)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection, and know it until it ends."""
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection."""
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """End all connections."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that hung up."""


class _Connection(socketserver.BaseRequestHandler):
    """Answers one request after the other."""

    server: _Server

    def handle(self) -> None:
        frames = FrameBuffer()
        while chunk := self.request.recv(_READ_BYTES):
            for frame in frames.feed(chunk):
                request = decode(frame)
                answer = self.server.answer(request)
                if not request.is_oneway:
                    self.request.sendall(encode(answer))
