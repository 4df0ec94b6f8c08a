"""Brokers and their settings by REST: what they are, changed, refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from console.rest.app import create_application
from console.security import tokens
from tests.console.stage import Stage

SETTINGS = "/api/v1/brokers/broker-a/settings"


@pytest.fixture
async def api(stage: Stage, transactional_db: None) -> AsyncIterator[httpx.AsyncClient]:
    scopes = tokens.scope_rows(["*"], ["*"], ["*"], settings=["*"])
    _row, token = await sync_to_async(tokens.create)("test", scopes)
    application = create_application(stage.broker.namesrv)
    transport, headers = httpx.ASGITransport(application), {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver", headers=headers) as client:
        yield client
    await application.state.holder.close()


async def settings(api: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    answer = await api.get(SETTINGS)
    assert answer.status_code == 200, answer.text
    return {row["name"]: row for row in answer.json()["settings"]}


async def test_brokers_are_listed_with_their_settings(stage: Stage, api: httpx.AsyncClient) -> None:
    (row,) = (await api.get("/api/v1/brokers")).json()["brokers"]
    assert row == {"name": "broker-a", "cluster": "DefaultCluster", "address": stage.broker.address}
    found = await settings(api)
    assert found["fileReservedTime"] == {
        "name": "fileReservedTime", "value": "72", "unit": "h", "default": "72", "started": "72", "is_changeable": True,
    }  # fmt: skip
    assert not found["storePathRootDir"]["is_changeable"]
    assert (await api.get("/api/v1/brokers/nobody/settings")).status_code == 404


async def test_a_setting_is_looked_at_changed_and_refused(api: httpx.AsyncClient) -> None:
    change = {"settings": {"fileReservedTime": 48, "autoCreateTopicEnable": False}, "reason": "the disk is small"}
    looked = await api.request("PATCH", SETTINGS, json={**change, "preview": True})
    assert looked.status_code == 200
    changes = looked.json()["preview"]["changes"]
    assert changes == [["fileReservedTime", "72", "48"], ["autoCreateTopicEnable", "true", "false"]]
    assert (await settings(api))["fileReservedTime"]["value"] == "72"
    done = await api.request("PATCH", SETTINGS, json=change)
    assert (done.status_code, done.json()["results"]) == (202, {"changed": 1})
    assert (await settings(api))["autoCreateTopicEnable"]["value"] == "false"
    late = await api.request("PATCH", SETTINGS, json={**change, "expected": {"fileReservedTime": "72"}})
    assert (late.status_code, late.json()["code"]) == (422, "operation_refused")
    wrong = await api.request("PATCH", SETTINGS, json={"settings": {"brokerName": "x"}, "reason": "no"})
    assert wrong.status_code == 422
    assert "cannot be changed while a broker runs" in wrong.text
    assert (await api.request("PATCH", "/api/v1/brokers/nobody/settings", json=change)).status_code == 404
