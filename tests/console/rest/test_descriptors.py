"""The Protobuf descriptor of a topic by REST: got, set and removed."""

from __future__ import annotations

import base64

import httpx
import pytest

from broker.mirror.models import Topic
from console.rest.operations import in_thread
from console.security import tokens as security_tokens
from console.site.broker import hang_up
from tests.console.messages.proto_shop import ORDER, SHOP, base64_of
from tests.console.overview.test_finding_marks import made

PATH = "/api/v1/topics/orders/descriptor"
SETTING = {"descriptor_set": base64_of(SHOP), "type": ORDER, "reason": "because"}


@pytest.fixture
def token(transactional_db: None) -> str:
    """May read and set what begins with "order"."""
    scopes = security_tokens.scope_rows([], ["order*"], settings=["order*"])
    return security_tokens.create("test", scopes)[1]


def there() -> None:
    """A topic as the mirror knows it."""
    made("broker-a")
    row = Topic(broker_id="broker-a", name="orders", read_queues=1, write_queues=1, permission=6)
    Topic.mirror_writer.bulk_create([row])


async def test_it_is_set_got_and_removed(api: httpx.AsyncClient) -> None:
    await in_thread(there)
    nothing = await api.get(PATH)
    assert (nothing.status_code, nothing.json()["code"]) == (404, "descriptor_not_found")
    looked = (await api.put(PATH, json={**SETTING, "preview": True})).json()["preview"]
    assert looked["types"] == [ORDER, f"{ORDER}.Line"]
    assert (await api.get(PATH)).status_code == 404
    answer = await api.put(PATH, json={**SETTING, "expected": ""})
    assert (answer.status_code, answer.json()["results"]) == (202, {"described": 1})
    found = (await api.get(PATH)).json()
    assert (found["type"], base64.b64decode(found["descriptor_set"])) == (ORDER, SHOP)
    assert found["set_by"] == "token test"
    late = await api.put(PATH, json={**SETTING, "type": f"{ORDER}.Line", "expected": ""})
    assert (late.status_code, late.json()["code"]) == (422, "operation_refused")
    other = {**SETTING, "type": f"{ORDER}.Line", "expected": found["digest"]}
    assert (await api.put(PATH, json=other)).json()["results"] == {"described": 1}
    preview = await api.delete(f"{PATH}?preview=true")
    assert preview.json()["preview"]["count"] == 1
    removed = await api.delete(f"{PATH}?reason=old")
    assert removed.json()["results"] == {"descriptor_removed": 1}
    assert (await api.delete(f"{PATH}?reason=old")).status_code == 404
    await in_thread(hang_up)


async def test_what_is_wrong_is_said(api: httpx.AsyncClient) -> None:
    await in_thread(there)
    for given, field in (
        ({"descriptor_set": "%"}, "set"), ({"descriptor_set": base64_of(b"x")}, "set"), ({"type": "shop.None"}, "type"),
        ({"type": ""}, "type"),
    ):  # fmt: skip
        answer = await api.put(PATH, json={**SETTING, **given})
        assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text
    assert (await api.put(PATH, json={**SETTING, "size": 1})).status_code == 400
    assert (await api.put(PATH, json={"reason": "x"})).status_code == 400
    assert (await api.get(PATH)).status_code == 404
    await in_thread(hang_up)


async def test_a_token_for_other_topics_has_no_part_in_it(api: httpx.AsyncClient) -> None:
    for answer in (
        await api.get("/api/v1/topics/payroll/descriptor"),
        await api.put("/api/v1/topics/payroll/descriptor", json=SETTING),
        await api.delete("/api/v1/topics/payroll/descriptor?reason=x"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")
