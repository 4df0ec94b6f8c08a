"""What official clients with tracing tell of a message, read by ours from Apache RocketMQ and from our broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.client import Admin
from tests.interop.programs import Program
from tests.interop.servers import Server
from tests.interop.waiting import wait_until


@pytest.mark.parametrize("version", ["4.9.8", "5.5.0"])
def test_a_messages_way_is_told(server: Server, version: str, topic: str, group: str, tmp_path: Path) -> None:
    properties = ["rocketmq.client.rebalance.waitInterval=1000"]
    program = Program("Traced", [server.namesrv, group, topic], version=version, work=tmp_path, properties=properties)
    try:
        message_id = str(program.await_event("sent")["msgId"])
        program.await_event("message", timeout_s=60)
        with Admin(server.namesrv) as admin:
            assert wait_until(lambda: len(admin.traces(message_id)) >= 3, 60)
            sent, *rest = admin.traces(message_id)
    finally:
        program.child.kill()
    assert (sent.kind, sent.topic, sent.group, sent.succeeded) == ("sent", topic, f"{group}-sending", True)
    assert {event.kind for event in rest} == {"delivered", "handled"}
    assert {event.request_id for event in rest} != {None}
    (handled,) = [event for event in rest if event.kind == "handled"]
    assert handled.succeeded
