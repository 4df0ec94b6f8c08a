"""Import while the real Java client goes on offering: every value becomes one timer, due when it was due."""

from __future__ import annotations

import queue as queues
import time
from collections import Counter

import pytest

from broker.client import Consumer
from broker.redisson.repair import begin_import, import_progress, pause_import, preview_import
from broker.redisson.to_topic import read_mode
from tests.interop.redisson_service import ServiceProcess
from tests.interop.waiting import wait_until

BEFORE, MEANWHILE, RATE, KILLS = 1_000, 1_500, 300, 2
HOUR_MS = 3_600_000


@pytest.fixture
def service(shared, escapement, tmp_path):
    """Our service, which also knows a broker, in a process of its own."""
    process = ServiceProcess(shared.server.url, tmp_path, escapement.namesrv).start()
    yield process
    process.kill()


@pytest.fixture
def inbox(escapement, group, topic):
    """What a consumer of the topic gets: body, when it was due, when it came."""
    arrived = queues.Queue()
    consumer = Consumer(group, escapement.namesrv, from_where="first")

    def note(message) -> None:
        arrived.put((message.body, int(message.properties["REDISSON_DUE_MS"]), time.time() * 1_000))

    consumer.subscribe(topic, "*", note)
    consumer.start()
    yield arrived
    consumer.stop()


def arrivals(inbox, wanted: set[bytes]) -> list[tuple[bytes, int, float]]:
    """Everything until all that is wanted has come, and whatever comes within two seconds more."""
    found: list[tuple[bytes, int, float]] = []
    while not wanted <= {body for body, _, _ in found}:
        found.append(inbox.get(timeout=60))
    quiet_s = 2.0
    while True:
        try:
            found.append(inbox.get(timeout=quiet_s))
        except queues.Empty:
            return found


def offered(prefix: str, count: int) -> set[bytes]:
    """The bodies of so many offers."""
    return {f"{prefix}{number}".encode() for number in range(count)}


def begin_offering(shared, queue: str, *, live: bool) -> int:
    """Java offers for some seconds; some of it is due at once, some much later than the import takes."""
    fields = {"prefix": "meanwhile-", "count": MEANWHILE, "rate": RATE, "minMs": 0, "maxMs": 8_000}
    return shared.java.begin("traffic.offer", queue, live=live, **fields)


@pytest.mark.parametrize("live", [False, True], ids=["no transfer task", "a live transfer task"])
def test_what_java_offers_before_and_meanwhile_arrives_once(shared, service, inbox, queue, topic, live):
    ours = shared.ours(queue)
    shared.java.call("traffic.offer", queue, prefix="before-", count=BEFORE, minMs=15_000, maxMs=20_000)
    preview = preview_import(ours)
    assert (preview.waiting, preview.overdue, preview.is_damaged) == (BEFORE, 0, False)
    if live:
        shared.java.open_live(queue)
    offers = begin_offering(shared, queue, live=live)
    begin_import(ours, topic)
    assert wait_until(lambda: import_progress(ours).sent > 200)
    # Stopped and resumed while Java offers: what it offers in between waits with Redisson.
    pause_import(ours)
    assert wait_until(lambda: not read_mode(ours).sending)
    begin_import(ours, topic)
    shared.java.answer(offers, 60)
    wanted = offered("before-", BEFORE) | offered("meanwhile-", MEANWHILE)
    found = arrivals(inbox, wanted)
    counts = Counter(body for body, _, _ in found)
    assert set(counts) == wanted
    assert [body for body, count in counts.items() if count > 1] == []
    assert min(arrived_ms - due_ms for _, due_ms, arrived_ms in found) >= 0
    assert wait_until(lambda: import_progress(ours).is_done)
    progress = import_progress(ours)
    assert (progress.left, progress.sending, progress.refused) == (0, 0, 0)
    assert progress.sent == len(wanted)
    if live:
        shared.java.call("destroy", queue)
    assert not shared.client.exists(ours.keys.timeout, ours.keys.waiting, ours.keys.target, ours.keys.sending)


def test_kills_of_the_service_lose_and_double_nothing(shared, service, inbox, queue, topic):
    ours = shared.ours(queue)
    shared.java.call("traffic.offer", queue, prefix="before-", count=BEFORE, minMs=20_000, maxMs=25_000)
    offers = begin_offering(shared, queue, live=False)
    begin_import(ours, topic)
    for number in range(KILLS):
        sent = import_progress(ours).sent
        # Whoever was killed keeps others from sending for some seconds more.
        assert wait_until(lambda least=sent + number: import_progress(ours).sent > least, 40), number
        service.kill()
        service.start()
    shared.java.answer(offers, 60)
    wanted = offered("before-", BEFORE) | offered("meanwhile-", MEANWHILE)
    counts = Counter(body for body, _, _ in arrivals(inbox, wanted))
    assert set(counts) == wanted
    assert [body for body, count in counts.items() if count > 1] == []
    assert wait_until(lambda: import_progress(ours).is_done)
    assert not shared.client.exists(ours.keys.timeout, ours.keys.waiting, ours.keys.target, ours.keys.sending)
