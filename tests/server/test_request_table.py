"""docs/COMPATIBILITY.md lists every request code, and who answers it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.engine.config import EngineConfig
from broker.rocketmq.acl import AccessConfig, User
from broker.rocketmq.codes import Request
from broker.server.broker import BrokerService, Protection

PAGE = Path(__file__).parents[2] / "docs" / "COMPATIBILITY.md"
ROWS = re.findall(r"^\| (\d+) \| (\w+) \| (both|broker|name service|client) \|", PAGE.read_text(), re.MULTILINE)
PUSHED = {
    Request.CHECK_TRANSACTION_STATE, Request.NOTIFY_CONSUMER_IDS_CHANGED, Request.RESET_CONSUMER_CLIENT_OFFSET,
    Request.GET_CONSUMER_STATUS_FROM_CLIENT, Request.PUSH_REPLY_MESSAGE_TO_CLIENT,
}  # fmt: skip


@pytest.fixture
async def guarded(config: EngineConfig) -> AsyncIterator[BrokerService]:
    """A broker with everything that can be asked for."""
    running = BrokerService(
        config,
        broker_port=0,
        namesrv_port=0,
        protection=Protection(access=AccessConfig(User("root", "secret-1", is_super=True))),
    )
    await running.start()
    yield running
    await running.stop()


async def test_the_table_says_who_answers_what(guarded: BrokerService) -> None:
    broker, name_service = (set(server.codes) for server in guarded.servers)
    answered = {
        (code, name): "both" if code in broker & name_service else "broker" if code in broker else "name service"
        for code, name in ((int(each), each.name) for each in Request)
        if code in broker | name_service
    }
    answered |= {(int(each), each.name): "client" for each in PUSHED}
    assert {(int(code), name): who for code, name, who in ROWS} == answered
    assert {code for code, _ in answered} == broker | name_service | set(map(int, PUSHED))
