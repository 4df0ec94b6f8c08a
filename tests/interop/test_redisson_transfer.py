"""Our transfer service and Java's own transfer task at once: nothing twice, nothing lost, nothing stuck."""

from __future__ import annotations

import itertools
import random

import pytest

from broker.redisson import DelayedQueue
from tests.interop.redisson import JavaQueues
from tests.interop.redisson_service import ServiceProcess
from tests.interop.redisson_traffic import judge

EACH, SPAN_MS = 1_000, 3_000
#: Few enough that one thread takes them as they come on a busy machine too; how late they may be is for the benchmark.
COUNT, LATENESS_LIMIT_MS = 100, 5_000


@pytest.fixture
def service(shared, tmp_path):
    """Our service, serving all queues of the shared server."""
    process = ServiceProcess(shared.server.url, tmp_path).start()
    yield process
    process.kill()


@pytest.fixture
def second(shared, tmp_path):
    """A JVM of its own, which takes."""
    java = JavaQueues(shared.server.url, version=shared.java.version, work=tmp_path)
    yield java
    java.child.kill()


def offer_from_both(shared, ours: DelayedQueue, *, live: bool) -> list[str]:
    """Values with random due times from Java and from Python at the same time; returns them all."""
    fields = {"prefix": "java-", "count": EACH, "minMs": 0, "maxMs": SPAN_MS, "live": live}
    number = shared.java.begin("traffic.offer", ours.name, **fields)
    draw = random.Random(EACH)
    values = [f"python-{each}" for each in range(EACH)]
    for value in values:
        ours.offer(value, delay=draw.randint(0, SPAN_MS))
    shared.java.answer(number, 60)
    return values + [f"java-{each}" for each in range(EACH)]


@pytest.mark.parametrize("takers", ["java", "python"])
def test_two_transfer_tasks_move_each_value_once(shared, queue, service, second, takers):
    ours = shared.ours(queue)
    shared.java.open_live(queue)
    if takers == "java":
        second.begin("traffic.take", queue)
        second.begin("traffic.take", queue)
    values = offer_from_both(shared, ours, live=True)
    if takers == "java":
        arrived = [value for value, _ in second.await_collected(queue, len(values))]
    else:
        arrived = list(iter(lambda: ours.take(timeout_s=3), None))
    verdict = judge(values, [], arrived)
    assert verdict.is_clean, str(verdict)
    shared.java.call("destroy", queue)
    assert not shared.client.exists(ours.keys.timeout, ours.keys.waiting, ours.keys.target)


def test_the_service_alone_serves_java(shared, queue, service, second):
    """No transfer task of Java's lives: what it offers is moved on time, in the order in which it is due."""
    ours = shared.ours(queue)
    second.begin("traffic.take", queue)
    due_ms = shared.java.call("traffic.offer", queue, prefix="", count=COUNT, minMs=200, maxMs=2_000)
    arrived = second.await_collected(queue, COUNT)
    assert sorted(value for value, _ in arrived) == sorted(str(number) for number in range(COUNT))
    late_ms = [now_ms - due_ms[int(value)] for value, now_ms in arrived]
    assert min(late_ms) >= 0
    assert max(late_ms) < LATENESS_LIMIT_MS
    # Java reads its clock once more for the score, so neighbours may be a few ms apart here.
    order = [due_ms[int(value)] for value, _ in arrived]
    assert all(later >= earlier - 50 for earlier, later in itertools.pairwise(order))
    assert ours.size() == 0
