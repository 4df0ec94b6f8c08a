"""A topic is deleted while another thread writes its queues."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

from broker.client.remoting import RemotingClient
from broker.engine.config import EngineConfig
from broker.engine.disk import File, OsFiles
from broker.rocketmq.codes import Answer, Request
from broker.server.broker import BrokerService
from tests.server.peer import Peer
from tests.waiting import until_true


class HeldFiles(OsFiles):
    """The thread that writes a queue of a topic stops before it opens its file, until it may go on."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.is_there, self.may_go_on = threading.Event(), threading.Event()

    def open(self, path: str, *, create: bool = False) -> File:
        if create and f"/consumequeue/{self._topic}/" in path and not self.may_go_on.is_set():
            self.is_there.set()
            assert self.may_go_on.wait(20)
        return super().open(path, create=create)


async def test_a_topic_is_deleted_when_its_queues_are_not_just_being_written(config: EngineConfig) -> None:
    files = HeldFiles("orders")
    service = BrokerService(
        replace(config, checkpoint_interval_ms=1), broker_port=0, namesrv_port=0, files=files, vip_channel=False
    )
    await service.start()
    client = RemotingClient()
    peer = Peer(client, service.address)
    try:
        assert (await peer.send("orders", b"old")).code == Answer.SUCCESS
        await until_true(files.is_there.is_set)
        deleting = asyncio.ensure_future(peer.ask(Request.DELETE_TOPIC_IN_BROKER, {"topic": "orders"}))
        assert (await peer.send("others")).code == Answer.SUCCESS, "everybody else goes on"
        assert not deleting.done()
        files.may_go_on.set()
        assert (await deleting).code == Answer.SUCCESS
        assert not (await asyncio.to_thread(files.exists, f"{config.root}/consumequeue/orders"))
        assert (await peer.send("orders", b"new")).code == Answer.SUCCESS
        assert [message.body for message in await peer.everything("orders")] == [b"new"]
        assert service.engine.health().state == "OK"
    finally:
        files.may_go_on.set()
        await client.close()
        await service.stop()
