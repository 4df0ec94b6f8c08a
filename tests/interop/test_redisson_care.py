"""What a console shows of a queue that Java uses, and what it puts right, seen by the real Redisson."""

from __future__ import annotations

from broker.redisson.queue import move_all_due
from broker.redisson.repair import deliver_now, move_to, plan_repair, remove_member, repair, reschedule
from broker.redisson.survey import find_poison, page, queue_names, survey
from tests.interop.waiting import wait_until

HOUR_MS = 3_600_000


def test_who_listens_is_shown(shared, queue):
    ours = shared.ours(queue)
    ours.offer("a", delay=HOUR_MS)
    assert survey(ours).listeners == 0
    shared.java.open_live(queue)
    assert wait_until(lambda: survey(ours).listeners == 1)
    shared.java.call("destroy", queue)
    assert wait_until(lambda: survey(ours).listeners == 0)


def test_a_queue_that_java_made_is_found_and_described(shared, queue):
    ours = shared.ours(queue)
    for value in ({"id": "order-1"}, {"id": "order-2"}):
        shared.java.offer(queue, value, HOUR_MS, "json")
    found = survey(ours)
    assert queue in queue_names(ours.server)
    assert (found.list_size, found.set_size, found.overdue, found.is_damaged) == (2, 2, 0, False)
    assert found.codec_guess == "JsonJacksonCodec"
    assert set(found.packings) == {"old" if shared.java.version == "3.16.8" else "new"}
    assert shared.java.call("now") < found.next_due_ms <= shared.java.call("now") + HOUR_MS


def test_what_javas_retain_all_leaves_is_damage_that_a_repair_heals(shared, queue):
    """Redisson removes them from the list only: they would fire unseen."""
    ours = shared.ours(queue)
    for value in ("keep", "gone-1", "gone-2"):
        shared.java.offer(queue, value, HOUR_MS)
    assert shared.java.call("retainAll", queue, value=["keep"])
    assert survey(ours).is_damaged
    plan = plan_repair(ours)
    assert (len(plan.list_only), len(plan.set_only), plan.is_complete) == (0, 2, True)
    assert repair(ours, plan.set_only) == 2
    assert not survey(ours).is_damaged
    assert sorted(shared.java.call("readAll", queue)) == ["gone-1", "gone-2", "keep"]
    assert shared.java.call("remove", queue, value="gone-1")
    assert shared.client.zcard(ours.keys.timeout) == 2 == ours.size()


def test_poison_of_the_other_packing_is_shown_and_named(shared, queue):
    ours = shared.ours(queue)
    ours.offer("good", delay=HOUR_MS)
    shared.client.zadd(ours.keys.timeout, {b"\x01poison": 1})
    shared.client.rpush(ours.keys.waiting, b"\x01poison")
    (shown,) = find_poison(ours)
    assert shown.is_poison
    assert (shown.value, shown.shown().text, shown.shown().is_hex) == (b"\x01poison", b"\x01poison".hex(), True)
    assert [item.is_poison for item in page(ours).items] == [True, False]


def test_an_object_that_only_java_reads_is_shown_as_hex_and_still_delivered(shared, queue):
    ours = shared.ours(queue)
    value = ["a", {"b": 1}]
    shared.java.offer(queue, value, 0, "jdk")
    shared.java.offer(queue, value, HOUR_MS, "jdk")
    (item,) = page(ours, from_ms=shared.java.call("now") + HOUR_MS / 2).items
    assert item.shown().is_hex
    assert wait_until(lambda: move_all_due(ours) >= 0 and shared.client.llen(queue) == 1)
    assert shared.java.take(queue, "jdk") == value


def test_one_member_is_removed_delivered_moved_and_put_off(shared, queue):
    """Each by its handle, as a console does; Java sees the outcome."""
    ours, other = shared.ours(queue), shared.ours(f"{queue}-other")
    for number in range(4):
        shared.java.offer(queue, f"value {number}", HOUR_MS + number * 60_000)
    handles = [item.handle for item in page(ours).items]
    assert remove_member(ours, handles[0])
    assert deliver_now(ours, handles[1])
    assert move_to(ours, handles[2], other)
    assert reschedule(ours, handles[3], shared.java.call("now") + 100)
    assert shared.java.call("target.readAll", queue) == ["value 1"]
    assert shared.java.call("readAll", other.name) == ["value 2"]
    shared.java.open_live(queue)
    assert [shared.java.take(queue), shared.java.take(queue)] == ["value 1", "value 3"]
    shared.java.call("destroy", queue)


def test_a_sooner_moment_wakes_the_transfer_task_of_java(shared, queue):
    ours = shared.ours(queue)
    shared.java.open_live(queue)
    shared.java.offer(queue, "later", HOUR_MS, live=True)
    (item,) = page(ours).items
    assert reschedule(ours, item.handle, shared.java.call("now") + 100)
    assert shared.java.take(queue) == "later"
    shared.java.call("destroy", queue)
