"""docs/COMPATIBILITY.md says which subcommands of mqadmin work: their requests are served."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.client.remoting import RemotingClient
from broker.rocketmq.codes import Answer
from broker.server.broker import BrokerService

PAGE = Path(__file__).parents[2] / "docs" / "COMPATIBILITY.md"
ROWS = re.findall(r"^\| `(\w+)` \| yes \| ([\d, ]+) \|", PAGE.read_text(), re.MULTILINE)


def test_there_is_a_table() -> None:
    assert len(ROWS) > 50


@pytest.mark.parametrize(("name", "codes"), ROWS, ids=[name for name, _ in ROWS])
async def test_what_a_subcommand_asks_for_is_served(service: BrokerService, name: str, codes: str) -> None:
    client = RemotingClient()
    try:
        for code in codes.split(","):
            answers = [await client.invoke(to, int(code)) for to in (service.address, service.namesrv_address)]
            assert {answer.code for answer in answers} != {Answer.REQUEST_CODE_NOT_SUPPORTED}, f"{name}: {code}"
    finally:
        await client.close()
