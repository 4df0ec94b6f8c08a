"""The pages of Redisson's delayed queues on a real Valkey, and every operation on them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
import redis
from django.contrib.auth import get_user_model
from django.test import Client

from broker.redisson import DelayedQueue
from broker.redisson.modes import read_mode
from broker.redisson.paging import page
from broker.redisson.surveying import survey
from console import queries
from console.live import fragments, page_of
from console.operations import desk
from console.operations.actor import Actor
from console.operations.errors import InvalidParameter, NotAllowed, NotPossible
from console.operations.rows import AuditEntry, Operation
from console.queries.redis_asking import hang_up
from tests.console.stage import HOSTILE

MINUTE, HOUR = 60_000, 3_600_000
LIMIT_BYTES = 100_000


@pytest.fixture
def server(valkey: str, settings: Any, transactional_db: None) -> Iterator[redis.Redis]:
    """An empty server that the console is pointed at."""
    settings.REDISSON_URL, settings.REDISSON_QUEUES, settings.REDISSON_READ_ONLY = valkey, ["*"], False
    client = redis.Redis.from_url(valkey)
    client.flushall()
    yield client
    hang_up()
    client.flushall()
    client.close()


@pytest.fixture
def orders(server: redis.Redis) -> DelayedQueue:
    """Ten values, a minute apart."""
    queue = DelayedQueue("orders", server)
    for number in range(10):
        queue.offer(f"order-{number}", delay=(number + 1) * MINUTE)
    return queue


@pytest.fixture
def actor(transactional_db: None) -> Actor:
    return Actor.of(get_user_model().objects.create_superuser("operator-2", password="a long secret"))


def words(html: str) -> str:
    """What a person reads."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html)))


def tags_of(html: str) -> set[str]:
    """The elements of a page."""
    return set(re.findall(r"<([a-zA-Z][\w-]*)", html))


def done(kind: str, parameters: dict[str, Any], actor: Actor) -> Operation:
    """Previewed, confirmed and run."""
    return desk.start(kind, parameters, actor, reason="tidy up")


def handles(queue: DelayedQueue, *, aside: bool = False) -> list[str]:
    return [str(each.handle) for each in page(queue, aside=aside).items]


def body_of(browser: Client, path: str) -> str:
    answer = browser.get(path)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


def test_every_queue_is_listed_with_what_waits(server: redis.Redis, orders: DelayedQueue, operator: Client) -> None:
    DelayedQueue("{bills}:late", server).offer("bill", delay=HOUR)
    html = body_of(operator, "/redisson/")
    text = words(html)
    assert "orders" in text and "{bills}:late" in text
    data = queries.delayed_queues()
    assert [(row.name, row.survey.set_size if row.survey else None) for row in data.rows] == [
        ("orders", 10), ("{bills}:late", 1),
    ]  # fmt: skip
    assert (data.waiting, data.overdue, data.looks) == (11, 0, 0)
    assert queries.delayed_queues(search="BILL").total == 1


def test_a_queue_that_nobody_moves_is_stuck_and_says_since_when(server: redis.Redis, operator: Client) -> None:
    seconds, _ = server.time()
    DelayedQueue("orders", server).offer("late", at=(seconds - 90) * 1000)
    (row,) = queries.delayed_queues().rows
    assert row.is_stuck and row.needs_look and row.survey is not None
    assert 88_000 < row.survey.stuck_ms < 95_000
    assert "stuck for" in words(body_of(operator, "/redisson/"))
    assert "none of ours; only Java moves what is due" in words(body_of(operator, "/redisson/"))


def test_a_key_of_the_wrong_type_spoils_its_own_row_only(orders: DelayedQueue, server: redis.Redis) -> None:
    server.set("redisson_delay_queue_timeout:{odd}", "text")
    found = {row.name: row for row in queries.delayed_queues().rows}
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


def test_chosen_values_are_removed_and_the_audit_says_who(orders: DelayedQueue, actor: Actor) -> None:
    chosen = handles(orders)[:3]
    row = done("redisson.remove", {"queue": "orders", "handles": chosen}, actor)
    assert (row.state, row.results) == ("done", {"removed": 3})
    assert orders.read_all() == [f"order-{number}" for number in range(3, 10)]
    again = done("redisson.remove", {"queue": "orders", "handles": chosen}, actor)
    assert again.results == {"gone": 3}
    entry = AuditEntry.objects.filter(operation=row.pk, what=AuditEntry.What.FINISHED).get()
    assert (entry.actor, entry.reason) == ("operator-2", "tidy up")


def test_a_range_is_delivered_now(orders: DelayedQueue, actor: Actor) -> None:
    third = page(orders).items[2].due_ms
    wanted = {"from_ms": None, "to_ms": int(third)}
    row = done("redisson.deliver_now", {"queue": "orders", "filter": wanted, "is_all": False}, actor)
    assert row.results == {"delivered_now": 2}
    assert [orders.poll(), orders.poll(), orders.poll()] == ["order-0", "order-1", None]


def test_values_move_in_time_and_to_another_queue(orders: DelayedQueue, server: redis.Redis, actor: Actor) -> None:
    before = [each.due_ms for each in page(orders).items]
    row = done("redisson.reschedule", {"queue": "orders", "handles": handles(orders)[:1], "shift_ms": 2 * HOUR}, actor)
    assert row.results == {"rescheduled": 1}
    assert page(orders).items[-1].due_ms == before[0] + 2 * HOUR
    row = done("redisson.move", {"queue": "orders", "handles": handles(orders)[:2], "to": "others"}, actor)
    assert row.results == {"moved": 2}
    assert DelayedQueue("others", server).read_all() == ["order-1", "order-2"]
    assert orders.size() == 8


def test_poison_is_set_aside_and_put_back(orders: DelayedQueue, server: redis.Redis, actor: Actor) -> None:
    for key in ("timeout", "waiting"):
        name = getattr(orders.keys, key)
        server.zadd(name, {b"neither packing": 1_000}) if key == "timeout" else server.rpush(name, b"neither packing")
    data = queries.delayed_queue("orders")
    assert data.values[0].is_poison and data.row is not None and data.row.needs_look
    row = done("redisson.set_aside", {"queue": "orders", "filter": {}, "is_all": True}, actor)
    assert row.results == {"set_aside": 1}
    assert not any(value.is_poison for value in queries.delayed_queue("orders").values)
    assert queries.delayed_queue("orders", aside=True).values[0].is_poison
    row = done("redisson.put_back", {"queue": "orders", "handles": handles(orders, aside=True)}, actor)
    assert row.results == {"put_back": 1}
    assert queries.delayed_queue("orders").values[0].is_poison


def test_damage_is_shown_previewed_and_repaired(orders: DelayedQueue, server: redis.Redis, actor: Actor) -> None:
    lost = server.lrange(orders.keys.waiting, 4, 4)[0]
    server.zrem(orders.keys.timeout, lost)
    data = queries.delayed_queue("orders", with_plan=True)
    assert data.row is not None and data.row.survey is not None and data.row.survey.is_damaged
    assert data.plan is not None and (len(data.plan.list_only), len(data.plan.set_only)) == (1, 0)
    row = done("redisson.repair", {"queue": "orders"}, actor)
    assert row.results == {"repaired": 1}
    found = survey(orders)
    assert (found.list_size, found.set_size, found.overdue) == (10, 10, 1)


def test_a_value_is_offered_as_java_reads_it(server: redis.Redis, actor: Actor) -> None:
    given = {"queue": "orders", "value": '{"@class":"java.util.HashMap","id":1}', "codec": "JsonJacksonCodec"}
    row = done("redisson.offer", {**given, "delay_ms": HOUR}, actor)
    assert row.results == {"offered": 1}
    assert list(DelayedQueue("orders", server).read_all_bytes()) == [b'{"@class":"java.util.HashMap","id":1}']
    with pytest.raises(InvalidParameter, match="JSON"):
        done("redisson.offer", {**given, "value": "{no json", "delay_ms": 0}, actor)


def test_clear_counts_what_would_be_gone(orders: DelayedQueue, actor: Actor) -> None:
    draft = desk.draft("redisson.clear", {"queue": "orders"}, actor)
    assert draft.preview["count"] == 10
    assert done("redisson.clear", {"queue": "orders"}, actor).results == {"cleared": 1}
    assert orders.size() == 0


def test_due_values_can_be_sent_to_a_topic_and_back(orders: DelayedQueue, actor: Actor) -> None:
    assert done("redisson.make_reliable", {"queue": "orders", "topic": "bills"}, actor).results == {"made_reliable": 1}
    assert (read_mode(orders).kind, read_mode(orders).topic, read_mode(orders).is_on) == ("reliable", "bills", True)
    handing = queries.delayed_queue("orders").handing
    assert handing is not None and handing.topic == "bills"
    done("redisson.make_plain", {"queue": "orders"}, actor)
    assert not read_mode(orders).is_on
    done("redisson.import", {"queue": "orders", "topic": "bills"}, actor)
    assert read_mode(orders).kind == "import"
    with pytest.raises(InvalidParameter):
        done("redisson.make_reliable", {"queue": "orders", "topic": "no topic!"}, actor)


def test_nothing_is_done_without_the_permission_or_to_a_queue_that_is_only_looked_at(
    orders: DelayedQueue, settings: Any, actor: Actor
) -> None:
    viewer = Actor("viewer", frozenset())
    with pytest.raises(NotAllowed):
        done("redisson.clear", {"queue": "orders"}, viewer)
    settings.REDISSON_QUEUES = ["bills*"]
    with pytest.raises(NotPossible, match="ESCAPEMENT_REDISSON_QUEUES"):
        done("redisson.clear", {"queue": "orders"}, actor)
    settings.REDISSON_READ_ONLY = True
    with pytest.raises(NotPossible, match="ESCAPEMENT_REDISSON_READ_ONLY"):
        done("redisson.remove", {"queue": "orders", "handles": handles(orders)}, actor)
    assert orders.size() == 10
    assert queries.delayed_queue("orders").locked == "read-only"


def test_the_form_of_a_page_is_previewed_and_confirmed(orders: DelayedQueue, operator: Client) -> None:
    html = body_of(operator, "/redisson/queue/?name=orders")
    number = re.search(r'name="operation" value="([^"]+)"', html)
    assert number is not None
    form = {"operation": number[1], "queue": "orders", "scope": "selected", "handle": handles(orders)[:2]}
    answer = operator.post("/redisson/draft/", {**form, "kind": "redisson.remove"})
    assert answer.status_code == 303
    preview = words(body_of(operator, answer["location"]))
    assert "Remove waiting values" in preview and "order-0" in preview
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
        assert operator.post("/redisson/draft/", form).status_code == 422, form
    assert operator.post("/redisson/draft/", {"kind": "timers.cancel"}).status_code == 404
    assert operator.get("/redisson/queue/").status_code == 404
    assert operator.get("/redisson/queue/?name=orders&cursor=nonsense").status_code == 404
    assert orders.size() == 10


async def test_the_page_is_live(orders: DelayedQueue) -> None:
    live = page_of("delayed_queues", "search=ord")
    assert live is not None
    parts = await fragments.parts(live, "en", 1)
    assert set(parts) == {"#stale", "#figures", "#queues", "#services"}
    assert "orders" in parts["#queues"]
