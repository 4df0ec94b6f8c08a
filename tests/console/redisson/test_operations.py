"""Every operation on Redisson's delayed queues, from page and desk, on a real Valkey."""

from __future__ import annotations

import re
from typing import Any

import pytest
import redis
from django.test import Client

from broker.redisson import DelayedQueue
from broker.redisson.survey import page, survey
from broker.redisson.to_topic import read_mode
from console.features.redisson import read as redisson_read
from console.operations import workflow
from console.operations.actor import Actor
from console.operations.errors import InvalidParameter, NotAllowed, NotPossible
from console.operations.models import AuditEntry
from tests.console.delayed_stage import (
    HOUR,
    MINUTE,
    body_of,
    done,
    handles,
    words,
)
from tests.console.markup import tight
from tests.console.ui.test_pages import tags_of


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
    data = redisson_read.delayed_queue("orders")
    assert data.values[0].is_poison and data.row is not None and data.row.needs_look
    row = done("redisson.set_aside", {"queue": "orders", "filter": {}, "is_all": True}, actor)
    assert row.results == {"set_aside": 1}
    assert not any(value.is_poison for value in redisson_read.delayed_queue("orders").values)
    assert redisson_read.delayed_queue("orders", aside=True).values[0].is_poison
    row = done("redisson.put_back", {"queue": "orders", "handles": handles(orders, aside=True)}, actor)
    assert row.results == {"put_back": 1}
    assert redisson_read.delayed_queue("orders").values[0].is_poison


def test_values_in_the_other_packing_are_poison_for_java_and_are_set_aside(
    orders: DelayedQueue, server: redis.Redis, operator: Client, actor: Actor
) -> None:
    DelayedQueue("orders", server, packing="old").offer("from before", delay=MINUTE // 2)
    DelayedQueue("orders", server, packing="new").offer("newest", delay=HOUR)
    data = redisson_read.delayed_queue("orders")
    assert [row.text for row in data.values if row.is_foreign] == ["from before"]
    html = body_of(operator, "/redisson/queue/?name=orders")
    assert "blocks Java" in words(html) and 'name="packing" value="old"' in html
    with pytest.raises(InvalidParameter):
        done("redisson.set_aside", {"queue": "orders", "filter": {}, "is_all": True, "packing": "odd"}, actor)
    everything = {"queue": "orders", "filter": {}, "is_all": True, "packing": "old"}
    draft = workflow.draft("redisson.set_aside", everything, actor)
    assert draft.preview["count"] == 1
    assert done("redisson.set_aside", everything, actor).results == {"set_aside": 1}
    assert not any(row.is_foreign for row in redisson_read.delayed_queue("orders").values)
    assert [row.text for row in redisson_read.delayed_queue("orders", aside=True).values] == ["from before"]
    assert "blocks Java" not in words(body_of(operator, "/redisson/queue/?name=orders"))


def test_chosen_values_are_set_aside(orders: DelayedQueue, operator: Client) -> None:
    html = tight(body_of(operator, "/redisson/queue/?name=orders"))
    number = re.search(r'name="operation" value="([^"]+)"', html)
    assert number is not None
    assert "redisson.set_aside" in [at.get("value") for tag, at in tags_of(html) if tag == "button"]
    form = {"queue": "orders", "scope": "selected", "handle": handles(orders)[:2], "kind": "redisson.set_aside"}
    operator.post("/operations/draft/", {**form, "operation": number[1]})
    operator.post(f"/operations/{number[1]}/confirm/", {"reason": "of a version that nobody runs"})
    assert [row.text for row in redisson_read.delayed_queue("orders", aside=True).values] == ["order-0", "order-1"]
    assert orders.size() == 8


def test_the_preview_of_an_import_says_what_will_not_be_a_timer(
    orders: DelayedQueue, server: redis.Redis, operator: Client, actor: Actor, settings: Any, free_port: int
) -> None:
    # no broker that would say how far ahead it takes timers, nor one that somebody runs on this machine
    settings.ESCAPEMENT_NAMESRV = f"127.0.0.1:{free_port}"
    server.zadd(orders.keys.timeout.decode(), dict.fromkeys(server.zrange(orders.keys.timeout, 0, 1), 5))
    draft = workflow.draft("redisson.import", {"queue": "orders", "topic": "bills"}, actor)
    assert draft.preview["met_count"] == 10
    assert ["overdue", 2] in draft.preview["topics"]
    text = words(body_of(operator, f"/operations/{draft.pk}/"))
    assert "2 already due: delivered immediately" in text
    assert "too_far" in draft.preview["missing"] and "does not report its furthest due time" in text


def test_the_preview_of_a_repair_says_what_is_wrong(
    orders: DelayedQueue, server: redis.Redis, operator: Client, actor: Actor
) -> None:
    server.zrem(orders.keys.timeout.decode(), *server.lrange(orders.keys.waiting.decode(), 2, 4))
    draft = workflow.draft("redisson.repair", {"queue": "orders"}, actor)
    assert draft.preview["topics"] == [["in_list", 3], ["in_set", 0]]
    text = words(body_of(operator, f"/operations/{draft.pk}/"))
    assert "3 in the list only: due immediately" in text and "in the set only: they" not in text


def test_an_import_shows_how_far_it_is(orders: DelayedQueue, operator: Client, actor: Actor) -> None:
    done("redisson.import", {"queue": "orders", "topic": "bills"}, actor)
    assert "Remaining 10" in words(body_of(operator, "/redisson/queue/?name=orders"))
    orders.clear()
    assert "Remaining none: done until Java offers more" in words(body_of(operator, "/redisson/queue/?name=orders"))


def test_damage_is_shown_previewed_and_repaired(orders: DelayedQueue, server: redis.Redis, actor: Actor) -> None:
    lost = server.lrange(orders.keys.waiting, 4, 4)[0]
    server.zrem(orders.keys.timeout, lost)
    data = redisson_read.delayed_queue("orders", with_plan=True)
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
    draft = workflow.draft("redisson.clear", {"queue": "orders"}, actor)
    assert draft.preview["count"] == 10
    assert done("redisson.clear", {"queue": "orders"}, actor).results == {"cleared": 1}
    assert orders.size() == 0


def test_due_values_can_be_sent_to_a_topic_and_back(orders: DelayedQueue, actor: Actor) -> None:
    assert done("redisson.make_reliable", {"queue": "orders", "topic": "bills"}, actor).results == {"made_reliable": 1}
    assert (read_mode(orders).kind, read_mode(orders).topic, read_mode(orders).is_on) == ("reliable", "bills", True)
    handing = redisson_read.delayed_queue("orders").handing
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
    assert redisson_read.delayed_queue("orders").locked == "read-only"
