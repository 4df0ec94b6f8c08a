"""Findings by REST: listed, snoozed, ignored and counted again; and who has no part in it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from console.features.overview.finding_marks import FindingMark
from console.rest.operations import in_thread
from console.security import tokens as security_tokens
from console.site.broker import hang_up
from console.site.clock import now_ms
from tests.console.overview.test_finding_marks import lags, made

FINDINGS, LEFT = "/api/v1/findings", "group-without-consumer"


@pytest.fixture
def token(transactional_db: None) -> str:
    """May change the settings of everything."""
    return security_tokens.create("test", security_tokens.scope_rows([], [], settings=["*"]))[1]


async def test_a_finding_is_listed_put_off_and_counted_again(api: httpx.AsyncClient) -> None:
    await in_thread(lambda: (made("broker-a"), lags(billing=40)))
    (found,) = (await api.get(FINDINGS)).json()["findings"]
    assert (found["kind"], found["subject"], found["place"], found["figure"]) == (LEFT, "billing", "", 40)
    assert found["put_off"] is None
    body: dict[str, Any] = {"kind": LEFT, "subject": "billing", "reason": "known"}
    until = now_ms() + 3_600_000
    looked = (await api.post(f"{FINDINGS}/snooze", json={**body, "until": until, "preview": True})).json()
    assert looked["preview"]["changes"] == [["until_ms", None, until]]
    assert await in_thread(FindingMark.objects.count) == 0
    for moment in (until, None):
        asked = {**body, "until": moment} if moment else body
        assert (await api.post(f"{FINDINGS}/snooze", json=asked)).json()["results"] == {"put_off": 1}
        (found,) = (await api.get(FINDINGS, params={"broker": "broker-a"})).json()["findings"]
        assert found["put_off"] == {"until_ms": moment, "reason": "known", "created_by": "token test"}
    assert (await api.post(f"{FINDINGS}/lift", json=body)).json()["results"] == {"counted": 1}
    assert (await api.post(f"{FINDINGS}/lift", json=body)).status_code == 422
    assert (await api.post(f"{FINDINGS}/snooze", json={**body, "kind": "moon"})).status_code == 422
    hang_up()


async def test_a_token_for_some_topics_has_no_part_in_it(api: httpx.AsyncClient) -> None:
    some = await in_thread(
        lambda: security_tokens.create("some", security_tokens.scope_rows(["*"], ["*"], settings=["order"]))
    )
    api.headers["authorization"] = f"Bearer {some[1]}"
    body = {"kind": LEFT, "subject": "billing", "reason": "x"}
    for answer in (
        await api.get(FINDINGS), await api.post(f"{FINDINGS}/snooze", json=body),
        await api.post(f"{FINDINGS}/lift", json=body),
    ):  # fmt: skip
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")
