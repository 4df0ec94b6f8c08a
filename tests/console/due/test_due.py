"""The Due page: what falls due by kind over time, and whether it goes out in time; by REST the same."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
import redis
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from broker.mirror.models import HalfMessage
from broker.redisson import DelayedQueue
from broker.rocketmq.codes import Request
from broker.rocketmq.topics import RETRY_PREFIX
from console.features.due.read import due_of, read_due
from console.features.due.shapes import Answer, BrokerLoad, DueKind, load_of, verdict_of
from console.kept_figures import Figures, keep_figures
from console.security.topic_scope import ALL
from console.site.broker import hang_up
from console.site.evidence import StaleReason
from console.site.mirrored import cluster
from console.ui import live
from console.ui.live import page_of
from tests.console.delayed_stage import MINUTE
from tests.console.people import browser_of, person
from tests.console.security.test_limited import limited_person
from tests.console.several import Several
from tests.console.stage import HOSTILE, Stage
from tests.console.ui.test_snapshots_pages import text_of
from tests.waiting import until

HOUR_MS = 3_600_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def judged(arrivals: list[int], capacity_per_s: float | None = 100.0, overdue: int = 0, **more: Any) -> BrokerLoad:
    return load_of("a", arrivals, overdue, start_ms=0, step_ms=1_000, capacity_per_s=capacity_per_s, **more)


def test_what_is_released_in_its_second_is_in_time() -> None:
    load = judged([0, 8, 100, 0])
    assert (load.peak_ms, load.share, load.late_ms) == (2_000, 1.0, 0)
    assert verdict_of([load]).answer is Answer.YES


def test_what_waits_behind_others_is_late() -> None:
    load = judged([0, 250, 250, 0, 0])
    # 150 wait after the first second, 300 after the second: three seconds
    assert (load.late_ms, load.late_at_ms) == (3_000, 2_000)
    assert verdict_of([load]).answer is Answer.NO


def test_what_is_overdue_goes_first() -> None:
    assert judged([0, 50], overdue=400).late_ms == 4_000


def test_a_second_that_the_broker_names_is_not_lost_in_a_long_step() -> None:
    load = load_of("a", [900], 0, start_ms=0, step_ms=60_000, capacity_per_s=100.0, late=[(7_000, 9_000)])
    assert (load.late_ms, load.late_at_ms) == (9_000, 7_000)


@pytest.mark.parametrize(
    ("seen", "answer"), [((12.0, 5), Answer.PROBABLY), ((3.0, 5), Answer.UNKNOWN), (None, Answer.UNKNOWN)]
)
def test_without_a_measured_capacity_nothing_is_promised(seen: tuple[float, int] | None, answer: Answer) -> None:
    load = judged([0, 10], None, seen=seen)
    assert (load.late_ms, load.share) == (None, None)
    assert verdict_of([load]).answer is answer


def test_of_several_brokers_the_one_in_the_worst_place_is_named() -> None:
    good, bad = judged([0, 5]), judged([0, 900])
    assert verdict_of([good, bad]).load is bad
    assert not verdict_of([good]).is_idle
    assert verdict_of([judged([0, 0])]).is_idle


def test_nothing_known_is_not_yes() -> None:
    unknown = judged([0, 0], None, is_known=False)
    assert verdict_of([unknown]).answer is Answer.UNKNOWN
    verdict = verdict_of([judged([0, 1]), unknown])
    assert (verdict.answer, verdict.is_partial) == (Answer.YES, True)


def open_half(topic: str, offset: int, in_ms: int = 30_000) -> None:
    """The mirror's row of a half that is asked about soon; the mirror itself looks every other second."""
    row = HalfMessage(broker_id="broker-a", offset=offset, state="open", topic=topic, next_check_ms=now_ms() + in_ms)
    HalfMessage.upsert([row], ("broker", "offset"))


@pytest.fixture
def due(stage: Stage, server: redis.Redis) -> Stage:
    """One of each kind: on a lane in a minute, two timers, a try of its group's policy, a value, a half."""
    stage.admin.create_group("billing")
    stage.producer.send("orders", "x", delay_level=5)
    for number in (1, 2):
        stage.producer.send("orders", "x", deliver_at_ms=now_ms() + number * 120_000)
    stage.producer.send(RETRY_PREFIX + "billing", "x", deliver_at_ms=now_ms() + 180_000, queue_id=0)
    DelayedQueue("orders", server).offer("x", delay=5 * MINUTE)
    open_half("orders", 1)
    stage.wait_for(lambda: stage.admin.timer_status().pending == 3)
    stage.mirror.run_once()
    return stage


def totals(page: Any) -> dict[str, int | None]:
    return {band.kind.value: band.total for band in page.bands}


def test_every_kind_is_counted_where_it_is_due(due: Stage) -> None:
    page = read_due("10m")
    assert totals(page) == {"lanes": 1, "timers": 2, "retries": 1, "redisson": 1, "checks": 1}
    assert [band.kind for band in page.bands] == list(DueKind)
    lanes, timers, *_ = page.bands
    at = [index for index, count in enumerate(lanes.counts or ()) if count]
    assert at in ([5], [6])
    assert [count for count in timers.counts or () if count] == [1, 1]
    assert page.total == 6
    assert page.verdict.answer in (Answer.UNKNOWN, Answer.PROBABLY)


def test_a_window_that_is_too_short_has_less(due: Stage) -> None:
    due.producer.send("orders", "x", deliver_at_ms=now_ms() + 2 * HOUR_MS)
    due.wait_for(lambda: due.admin.timer_status().pending == 4)
    assert [totals(read_due(name))["timers"] for name in ("10m", "1h", "1d")] == [2, 2, 3]


def test_the_page_says_it_in_words_drawing_and_table(due: Stage, operator: Client) -> None:
    shown = text_of(operator, "/due/?window=10m")
    assert "Not known: at the peak" in shown or "Probably: at the peak" in shown
    assert shown.count('<a href="/timers/list/?from=') == 2  # timers and tries, each a band of the drawing
    assert 'aria-current="true"' in shown
    assert "not measured" in shown
    assert len(shown.encode()) < 100_000
    for row in ("as=json", "as=csv"):
        assert operator.get(f"/due/?window=10m&{row}").status_code == 200


def test_the_page_is_in_chinese(due: Stage, operator: Client) -> None:
    shown = operator.get("/due/", headers={"accept-language": "zh-hans"}).content.decode()
    for english in ("Delay levels", "Group retries", "fall due", "not measured", "What can be released"):
        assert english not in shown


def test_what_is_not_known_is_not_nothing(due: Stage, operator: Client, settings: Any) -> None:
    settings.REDISSON_URL = "redis://127.0.0.1:1/0"
    due.broker.stop()
    hang_up()
    page = read_due("1h")
    by_kind = {band.kind: band for band in page.bands}
    assert by_kind[DueKind.TIMERS].counts is None
    assert by_kind[DueKind.TIMERS].unknown[0].why is StaleReason.BROKER_UNREACHABLE
    assert by_kind[DueKind.REDISSON].unknown[0].why is StaleReason.REDIS_UNREACHABLE
    assert page.verdict.answer is Answer.UNKNOWN
    shown = text_of(operator, "/due/")
    assert "the Redis server cannot be reached" in shown
    assert (by_kind[DueKind.REDISSON].total, page.total) == (None, 2)


def test_before_the_mirror_all_is_unknown(db: None, settings: Any) -> None:
    settings.ESCAPEMENT_NAMESRV = "127.0.0.1:1"
    page = read_due()
    assert all(band.counts is None for band in page.bands if band.kind is not DueKind.REDISSON)
    assert page.verdict.answer is Answer.UNKNOWN
    hang_up()


def test_who_sees_some_topics_is_told_his_queues_and_halves(due: Stage, server: redis.Redis) -> None:
    due.admin.create_topic("payroll", queues=1)
    DelayedQueue("payroll", server).offer("x", delay=5 * MINUTE)
    open_half("payroll", 2)
    assert totals(read_due("10m"))["checks"] == 2
    browser = browser_of(limited_person("anna", "ord"))
    page: Any = browser.get("/due/?window=10m").context["data"]
    assert totals(page) == {"lanes": 1, "timers": 2, "retries": 1, "redisson": 1, "checks": 1}
    shown = text_of(browser, "/due/?window=10m")
    assert (page.total, page.own.total) == (4, 2)
    assert "The whole broker" in shown
    assert "payroll" not in shown


def test_hostile_names_are_counted_and_not_run(due: Stage, server: redis.Redis, operator: Client) -> None:
    for name in HOSTILE:
        DelayedQueue(name, server).offer("x", delay=5 * MINUTE)
    shown = text_of(operator, "/due/")
    assert totals(read_due("1h"))["redisson"] == 1 + len(HOSTILE)
    assert "<script>alert" not in shown


def test_a_queue_that_is_no_queue_is_said_to_be_left_out(due: Stage, server: redis.Redis) -> None:
    server.set("redisson_delay_queue_timeout:{odd}", "x")
    band = read_due("1h").bands[3]
    assert (band.total, band.left, band.is_known) == (1, 1, False)


def test_it_costs_few_queries(due: Stage) -> None:
    read_due()
    with CaptureQueriesContext(connection) as captured:
        read_due()
    assert len(captured) <= 5


def test_paused_timers_are_not_counted_on(due: Stage, operator: Client) -> None:
    due.admin.pause_timers(True)
    page = read_due("10m")
    assert page.paused == ("broker-a",)
    # the lane's message alone is to be released
    assert page.loads[0].peak_per_s == 1.0
    assert "Timers are paused at broker-a" in text_of(operator, "/due/?window=10m")


def test_several_brokers_in_total(brokers: Several, server: redis.Redis, operator: Client) -> None:
    for name in ("broker-a", "broker-b"):
        brokers.send(name, "orders", "x", delay_level=2)
    brokers.mirror()
    assert totals(read_due("1d"))["lanes"] == 2
    one: Any = operator.get("/at/broker-b/due/?window=1d").context["data"]
    assert totals(one)["lanes"] == 1
    brokers.kill("broker-b")
    page = due_of(cluster(), "1d", is_topic=lambda _: True, is_queue=lambda _: True)
    assert [each.source for each in page.bands[1].unknown] == ["broker-b"]
    assert totals(page)["lanes"] == 2
    assert page.verdict.is_partial
    assert "broker-b" in text_of(operator, "/due/")


def test_the_most_that_was_seen_is_of_any_kept_minute(due: Stage, operator: Client) -> None:
    at_ms = now_ms() // 60_000 * 60_000
    for minute, (lanes, timers) in enumerate(((0, 0), (60, 6_000), (120, 6_000), (120, 6_060))):
        slot_ms = at_ms - (9 - minute) * 60_000
        keep_figures("broker-a", slot_ms, [Figures("lanes", "", lanes), Figures("timers", "", timers)])
    load = read_due("10m").loads[0]
    assert (load.seen_per_s, load.seen_ms) == (100.0, at_ms - 9 * 60_000)
    assert read_due("10m").verdict.answer is Answer.PROBABLY
    assert "100/s were seen to go out" in text_of(operator, "/due/?window=10m")


def test_an_open_page_moves(stage: Stage, operator: Client) -> None:
    shown = text_of(operator, "/due/?window=10m")
    assert 'hx-ws:connect="/ws/live/due?window=10m"' in shown
    page = page_of("due", "window=10m")
    assert page is not None
    page = replace(page, visible=ALL)
    before = live._made(page, "en", 1, None)
    for part in before.parts:
        assert f'id="{part[1:]}"' in shown, part
    assert set(before.parts) == {"#verdict", "#due-unknown", "#figures", "#due-bars", "#due-table", "#capacity"}
    stage.producer.send("orders", "soon", deliver_at_ms=now_ms() + MINUTE)
    until(lambda: stage.admin.timer_status().pending == 1)
    after = live._made(page, "en", 2, before)
    for part in ("#figures", "#due-bars", "#due-table"):
        assert after.parts[part] != before.parts[part], part


# How fast was measured.


def measure(stage: Stage, per_s: float) -> None:
    """What a self-test leaves in the broker, without the two seconds that it takes (test_measuring.py)."""
    engine = stage.broker.service.engine
    stage.broker.call(lambda: engine.self_tested(per_s, now_ms()))


def test_a_measured_broker_says_yes_and_how_it_was_found(due: Stage, operator: Client) -> None:
    measure(due, 41_000)
    page = read_due("10m")
    (load,) = page.loads
    assert (load.capacity_per_s, load.capacity_how, load.is_measurable) == (41_000, "self_test", True)
    assert page.verdict.answer is Answer.YES
    shown = text_of(operator, "/due/?window=10m")
    assert "Yes, in time: &lt; 1 % of what this broker can release" in shown
    assert "41,000" in shown
    assert "self-test, " in shown
    assert "tests itself once" not in shown


def test_who_may_not_change_settings_has_no_button(due: Stage, operator: Client) -> None:
    assert "Measure now" in text_of(operator, "/due/")
    assert "Measure now" not in text_of(browser_of(person("vera")), "/due/")


def test_a_broker_that_does_not_measure_is_said_to_have_no_figure(due: Stage, operator: Client) -> None:
    with due.broker.without(Request.GET_TIMER_STATUS, Request.GET_TIMER_FORECAST, Request.MEASURE_RELEASES):
        (load,) = read_due("1h").loads
        assert (load.capacity_per_s, load.capacity_how, load.is_measurable) == (None, None, False)
        shown = text_of(operator, "/due/")
        assert "An Apache RocketMQ broker does not measure how fast it releases." in shown
        assert "Measure now" not in shown
        assert operator.post("/operations/draft/", {"kind": "due.measure"}).status_code == 422
