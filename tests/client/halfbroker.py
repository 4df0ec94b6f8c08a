"""A scripted broker for what no real one does on demand: staying silent, refusing, checking, moving a half.

It is a name server and a broker on one port, in a thread of its own, and knows routes, heartbeats, halves and their
decisions. What holds for real brokers is tested in tests/interop.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Self

from broker.rocketmq.codes import ONEWAY_FLAG, Answer, Request
from broker.rocketmq.frame import Command, FrameBuffer, decode
from broker.rocketmq.frame import encode as encode_frame
from broker.rocketmq.message import encode, offset_message_id, pack_host, record_size
from broker.rocketmq.properties import format_properties, parse_properties

PATIENCE_S = 20
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"


@dataclass
class StoredHalf:
    """A half as it arrived; `decisions` are the fields of every request 37 for it, in order."""

    topic: str
    body: bytes
    properties: dict[str, str]
    sys_flag: int
    offset: int
    born_ms: int
    decisions: list[dict[str, str]] = field(default_factory=list)

    @property
    def codes(self) -> list[int]:
        """8 for each commit, 12 for each rollback, 0 for each unknown."""
        return [int(fields["commitOrRollback"]) for fields in self.decisions]


class HalfBroker:
    """Starts on entry, stops on exit."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.halves: dict[str, StoredHalf] = {}
        self.plain: list[tuple[str, bytes]] = []
        self.plain_queues: list[int] = []
        self.queues = 1
        self.permission = 6
        #: topics of brokers that are away
        self.away: set[str] = set()
        self.cluster_code = 0
        #: response codes for messages with these bodies
        self.refused: dict[bytes, int] = {}
        self.send_code = 0
        self.end_code = 0
        self.is_silent_to_halves = False
        self.is_silent_to_ends = False
        self._groups: dict[str, asyncio.StreamWriter] = {}
        self._writers: list[asyncio.StreamWriter] = []
        self._changed = threading.Condition()

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, "127.0.0.1", self.port))
        self.port = self._server.sockets[0].getsockname()[1]
        self.namesrv = f"127.0.0.1:{self.port}"
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End all connections and listen no more; idempotent."""
        if self._loop.is_closed():
            return
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def half(self, unique_id: str) -> StoredHalf:
        """The half with this transaction id."""
        return self.halves[unique_id]

    def wait(self, holds) -> None:  # type: ignore[no-untyped-def]  # any condition
        """Wait until `holds` is true after a request."""
        with self._changed:
            assert self._changed.wait_for(holds, PATIENCE_S)

    def wait_for_producer(self, group: str) -> None:
        """Wait for a heartbeat of the group."""
        self.wait(lambda: group in self._groups)

    def check(self, unique_id: str, *, group: str | None = None, offset: int | None = None, body: bytes = b"") -> None:
        """Ask the half's group what became of it; as Apache RocketMQ, under a new offset if one is given."""
        half = self.halves[unique_id]
        half.offset = half.offset if offset is None else offset
        record = body or self._record(half)
        ext = {
            "bname": "broker-a", "topic": HALF_TOPIC, "msgId": unique_id, "transactionId": unique_id,
            "tranStateTableOffset": str(half.offset), "commitLogOffset": str(half.offset * 1000),
        }  # fmt: skip
        frame = encode_frame(Command(Request.CHECK_TRANSACTION_STATE, ext, record, flag=ONEWAY_FLAG))
        writer = self._groups[group or half.properties["PGROUP"]]
        self._loop.call_soon_threadsafe(writer.write, frame)

    def _record(self, half: StoredHalf) -> bytes:
        topic, properties = half.topic.encode(), format_properties(half.properties)
        born, stored = pack_host("127.0.0.1", 1), pack_host("127.0.0.1", self.port)
        return encode(
            topic, 0, half.offset, half.offset * 1000, half.body, properties, 0, 0, half.born_ms, born, half.born_ms,
            stored, 0, 0, record_size(topic, half.body, properties, born, stored),
        )  # fmt: skip

    def _run(self, work):  # type: ignore[no-untyped-def]  # of any result
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        frames = FrameBuffer()
        while data := await reader.read(65536):
            for frame in frames.feed(data):
                request = decode(frame)
                with self._changed:
                    answer = self._answer(request, writer)
                    self._changed.notify_all()
                if answer is not None and not request.is_oneway:
                    writer.write(encode_frame(answer))

    def _answer(self, request: Command, writer: asyncio.StreamWriter) -> Command | None:
        if request.code == Request.GET_ROUTEINFO_BY_TOPIC:
            if request.ext["topic"] in self.away:
                return request.answer(code=Answer.TOPIC_NOT_EXIST, remark="no route")
            return request.answer(body=self._route())
        if request.code == Request.GET_BROKER_CLUSTER_INFO:
            return request.answer(body=b'{"brokerAddrTable":{"broker-a":%b}}' % self._about(), code=self.cluster_code)
        if request.code == Request.HEART_BEAT:
            self._register(request.body, writer)
        elif request.code == Request.SEND_MESSAGE_V2:
            return self._take(request)
        elif request.code == Request.END_TRANSACTION:
            return self._end(request)
        elif request.code == Request.UNREGISTER_CLIENT:
            self._groups = {group: each for group, each in self._groups.items() if each is not writer}
        else:
            return request.answer(code=Answer.REQUEST_CODE_NOT_SUPPORTED)
        return request.answer()

    def _register(self, body: bytes, writer: asyncio.StreamWriter) -> None:
        for part in body.decode().split('"groupName":"')[1:]:
            self._groups[part.partition('"')[0]] = writer

    def _take(self, request: Command) -> Command | None:
        ext = request.ext
        properties = parse_properties(ext["i"].encode())
        unique_id = properties["UNIQ_KEY"]
        offset = len(self.halves)
        if properties.get("TRAN_MSG") == "true":
            self.halves[unique_id] = StoredHalf(
                ext["b"], request.body, properties, int(ext["f"]), offset, int(ext["g"])
            )
            if self.is_silent_to_halves:
                return None
        else:
            if request.body in self.refused:
                return request.answer(code=self.refused[request.body], remark="refused here")
            self.plain.append((ext["b"], request.body))
            self.plain_queues.append(int(ext["e"]))
        place = offset_message_id(pack_host("127.0.0.1", self.port), offset * 1000)
        fields = {"msgId": place, "queueId": "0", "queueOffset": str(offset), "transactionId": unique_id}
        return request.answer(fields, code=self.send_code)

    def _end(self, request: Command) -> Command | None:
        self.halves[request.ext["transactionId"]].decisions.append(request.ext)
        if self.is_silent_to_ends or request.ext["commitOrRollback"] == "0":
            return None
        return request.answer(code=self.end_code)

    def _about(self) -> bytes:
        return b'{"brokerName":"broker-a","cluster":"c","brokerAddrs":{"0":"%b"}}' % self.namesrv.encode()

    def _route(self) -> bytes:
        number = self.queues
        queues = b'"brokerName":"broker-a","perm":%d,"readQueueNums":%d,"writeQueueNums":%d' % (
            self.permission, number, number,
        )  # fmt: skip
        return b'{"brokerDatas":[%b],"queueDatas":[{%b,"topicSysFlag":0}]}' % (self._about(), queues)
