"""What the description of REST says is so: thousands of calls made from it, right ones and wrong ones."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from broker.client import AsyncAdmin
from console.rest.documentation import description
from console.security import tokens
from tests.console.rest.test_serving import serving
from tests.house.sources import ROOT

SCHEMATHESIS = ROOT / ".venv" / "scan" / "bin" / "schemathesis"
#: No fault of the server, and nothing that is not described. What is right by its form only may be refused.
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"

#: how long an answer is waited for. What asks for messages may wait for them; it is no error of the connection then
TIMEOUT_S = 40


def test_no_answer_may_be_waited_for_as_long_as_these_calls_have() -> None:
    waits = [
        schema["maximum"]
        for kind in description()["components"]["schemas"].values()
        for name, schema in kind.get("properties", {}).items()
        if name == "wait_ms"
    ]
    assert waits and max(waits) < TIMEOUT_S * 1000


@pytest.mark.soak
async def test_no_call_that_is_made_from_the_description_fails(
    namesrv: str, transactional_db: None, valkey: str, settings: Any, tmp_path: Path
) -> None:
    settings.REDIS_URL, settings.ESCAPEMENT_NAMESRV = valkey, namesrv
    settings.REDISSON_URL, settings.REDISSON_QUEUES, settings.REDISSON_READ_ONLY = valkey, ["*"], False
    everything = tokens.scope_rows(("*",), ("*",), ("*",), ("*",), ("*",), ("*",))
    token = (await sync_to_async(tokens.create)("all", everything))[1]
    admin = AsyncAdmin(namesrv)
    await admin.create_topic("0", queues=4)
    await admin.close()
    described = tmp_path / "openapi.json"
    described.write_text(json.dumps(description()))
    async with serving(namesrv) as port:
        # how often a token may ask is tried elsewhere
        run = await asyncio.create_subprocess_exec(
            SCHEMATHESIS, "run", described, "--url", f"http://127.0.0.1:{port}", "-H", f"Authorization: Bearer {token}",
            "--checks", CHECKS, "--max-examples", "6", "--continue-on-failure", "--suppress-health-check", "all",
            "--request-timeout", str(TIMEOUT_S),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=tmp_path,
        )  # fmt: skip
        said = (await run.communicate())[0].decode()
    assert run.returncode == 0, said[-6000:]
    assert "Tested: " in said
