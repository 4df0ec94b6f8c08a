"""The pages of Redisson's delayed queues on a real Valkey."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from typing import Any

import pytest
import redis
from django.test import Client

from broker.redisson import DelayedQueue
from console.features.redisson import read as redisson_read
from console.features.redisson.read import hang_up
from console.security.topic_scope import ALL
from console.ui.live import fragments, page_of
from tests.console.delayed_stage import (
    HOUR,
    LIMIT_BYTES,
    MINUTE,
    body_of,
    handles,
    tags_of,
    words,
)
from tests.console.stage import HOSTILE


def test_every_queue_is_listed_with_what_waits(server: redis.Redis, orders: DelayedQueue, operator: Client) -> None:
    DelayedQueue("{bills}:late", server).offer("bill", delay=HOUR)
    html = body_of(operator, "/redisson/")
    text = words(html)
    assert "orders" in text and "{bills}:late" in text
    data = redisson_read.delayed_queues()
    assert [(row.name, row.survey.set_size if row.survey else None) for row in data.rows] == [
        ("orders", 10), ("{bills}:late", 1),
    ]  # fmt: skip
    assert (data.waiting, data.overdue, data.looks) == (11, 0, 0)
    assert redisson_read.delayed_queues(search="BILL").total == 1


def test_a_queue_that_is_not_there_is_not_called_empty(orders: DelayedQueue, operator: Client) -> None:
    nowhere = words(body_of(operator, "/redisson/queue/?name=ordres"))
    assert "Redis has no data of a queue with this name" in nowhere
    assert "does not exist" in nowhere
    assert "Redis has no data" not in words(body_of(operator, "/redisson/queue/?name=orders"))


def test_a_queue_that_nobody_moves_is_stuck_and_says_since_when(server: redis.Redis, operator: Client) -> None:
    seconds, _ = server.time()
    DelayedQueue("orders", server).offer("late", at=(seconds - 90) * 1000)
    (row,) = redisson_read.delayed_queues().rows
    assert row.is_stuck and row.needs_look and row.survey is not None
    assert 88_000 < row.survey.stuck_ms < 95_000
    assert "stuck for" in words(body_of(operator, "/redisson/"))
    assert "no transfer service; only Java clients move due values" in words(body_of(operator, "/redisson/"))


def test_a_key_of_the_wrong_type_spoils_its_own_row_only(orders: DelayedQueue, server: redis.Redis) -> None:
    server.set("redisson_delay_queue_timeout:{odd}", "text")
    found = {row.name: row for row in redisson_read.delayed_queues().rows}
    assert found["odd"].survey is None and "was left alone" in found["odd"].problem
    assert found["orders"].survey is not None and not found["orders"].problem


def test_without_a_server_the_page_says_so(settings: Any, operator: Client, free_port: int) -> None:
    settings.REDISSON_URL = f"redis://127.0.0.1:{free_port}/0"
    html = body_of(operator, "/redisson/")
    assert "the Redis server cannot be reached" in words(html)
    assert "the Redis server cannot be reached" in words(body_of(operator, "/redisson/queue/?name=orders"))
    hang_up()


def test_values_come_in_due_order_page_by_page(server: redis.Redis, operator: Client) -> None:
    queue = DelayedQueue("orders", server)
    for number in range(120):
        queue.offer(f"order-{number}", delay=HOUR + (number * 37 % 120) * MINUTE)
    seen: list[str] = []
    path: str | None = "/redisson/queue/?name=orders"
    while path is not None:
        html = body_of(operator, path)
        assert len(html) < LIMIT_BYTES
        assert ("First page" in html) == ("cursor=" in path)
        seen += re.findall(r"order-\d+", words(html.partition('id="values"')[2].partition("</table>")[0]))
        found = re.search(r'rel="next" href="([^"]*)"', html)
        path = "/redisson/queue/" + unescape(found[1]) if found else None
    assert seen == [f"order-{number}" for number in sorted(range(120), key=lambda number: number * 37 % 120)]


@pytest.mark.parametrize("text", HOSTILE)
def test_names_and_values_are_text(server: redis.Redis, operator: Client, text: str) -> None:
    DelayedQueue(text, server).offer(text, delay=HOUR)
    assert text in words(body_of(operator, "/redisson/"))
    html = operator.get("/redisson/queue/", {"name": text}).content.decode()
    assert text in words(html)
    DelayedQueue("plain", server).offer("plain", delay=HOUR)
    assert tags_of(html) == tags_of(operator.get("/redisson/queue/", {"name": "plain"}).content.decode())


def test_the_form_of_a_page_is_previewed_and_confirmed(orders: DelayedQueue, operator: Client) -> None:
    html = body_of(operator, "/redisson/queue/?name=orders")
    number = re.search(r'name="operation" value="([^"]+)"', html)
    assert number is not None
    form = {"operation": number[1], "queue": "orders", "scope": "selected", "handle": handles(orders)[:2]}
    answer = operator.post("/operations/draft/", {**form, "kind": "redisson.remove"})
    assert answer.status_code == 303
    preview = words(body_of(operator, answer["location"]))
    assert "Remove pending values" in preview and "order-0" in preview
    confirmed = operator.post(f"/operations/{number[1]}/confirm/", {"reason": "paid twice"})
    assert confirmed.status_code == 303
    assert "removed 2" in words(body_of(operator, confirmed["location"]))
    assert orders.size() == 8
    operator.post(f"/operations/{number[1]}/confirm/", {"reason": "again"})
    assert orders.size() == 8


def test_what_is_wrong_with_a_form_is_said(orders: DelayedQueue, operator: Client) -> None:
    for form in (
        {"kind": "redisson.remove", "queue": "orders", "scope": "selected"},
        {"kind": "redisson.move", "queue": "orders", "scope": "selected", "handle": handles(orders)[0], "to": "orders"},
        {"kind": "redisson.remove", "queue": "orders", "scope": "selected", "handle": "no handle"},
        {"kind": "redisson.offer", "queue": "orders", "value": "x", "codec": "Kryo5Codec", "delay": "1 h"},
        {"kind": "redisson.offer", "queue": "orders", "value": "x", "codec": "StringCodec", "delay": "soon"},
    ):
        assert operator.post("/operations/draft/", form).status_code == 422, form
    assert operator.post("/operations/draft/", {"kind": "redisson.nothing"}).status_code == 404
    assert operator.get("/redisson/queue/").status_code == 404
    assert operator.get("/redisson/queue/?name=orders&cursor=nonsense").status_code == 404
    assert orders.size() == 10


async def test_the_page_is_live(orders: DelayedQueue) -> None:
    live = page_of("delayed_queues", "search=ord")
    assert live is not None
    live = replace(live, visible=ALL)
    parts = await fragments.parts(live, "en", 1)
    assert set(parts) == {"#stale", "#figures", "#queues", "#services"}
    assert "orders" in parts["#queues"]


async def test_the_page_of_a_queue_is_live(orders: DelayedQueue) -> None:
    live = page_of("delayed_queue", "name=orders")
    assert live is not None
    live = replace(live, visible=ALL)
    parts = await fragments.parts(live, "en", 1)
    assert set(parts) == {"#stale", "#state", "#figures", "#next", "#handing"}
    assert "order-0" in parts["#next"] and "order-5" not in parts["#next"]
    orders.remove("order-0")
    later = await fragments.parts(live, "en", 2)
    assert "order-0" not in later["#next"] and "order-5" in later["#next"]
