"""One message's life: what the log shows and what clients told on one line of time, each told step at its record."""

from __future__ import annotations

import re
import threading

from django.test import Client

from broker.client import Consumer, Message, Producer
from broker.rocketmq.topics import TRACE_TOPIC
from broker.rocketmq.traces import Trace
from console.features.messages import read as messages_read
from console.features.messages.hops import TOLD_LIMIT, Told, told_of
from console.features.messages.shapes import LifeStep, StepKind
from tests.console.stage import HOSTILE, Stage
from tests.console.ui.test_pages import tags_of, words

NO_TRACE = "No trace of this message."


def sent_event(
    record: Message, *, at_ms: int, group: str = "shop", client: str = "10.0.0.7", worked: str = "true"
) -> str:
    """As RocketMQ's producers write it."""
    fields = (
        "Pub", at_ms, "Region", group, "orders", record.unique_key, "paid", "order-1", "127.0.0.1:10911", 12, 5, 0,
        record.offset_message_id, worked, client,
    )  # fmt: skip
    return "\x01".join(map(str, fields)) + "\x02"


def consumed_events(
    record: Message, *, at_ms: int, tries: int = 0, group: str = "billing", client: str = "10.0.0.9",
    worked: str = "true", request: str = "R1", took_ms: int = 7,
) -> str:  # fmt: skip
    """As RocketMQ's consumers write them."""
    before = ("SubBefore", at_ms, "Region", group, request, record.unique_key, tries, "order-1", client)
    after = ("SubAfter", request, record.unique_key, took_ms, worked, "order-1", 0, at_ms + took_ms, group)
    return "".join("\x01".join(map(str, fields)) + "\x02" for fields in (before, after))


def tell(stage: Stage, record: Message, *events: str) -> None:
    assert record.unique_key
    stage.producer.send(TRACE_TOPIC, "".join(events), keys=[record.unique_key])


def sent(stage: Stage, body: str = "pay") -> Message:
    made = stage.producer.send("orders", body, keys=["order-1"], tag="paid", queue_id=0)
    return stage.admin.message_by_offset_id(made.offset_message_id)


def steps(record: Message) -> tuple[LifeStep, ...]:
    return messages_read.message(record.offset_message_id).steps


def test_a_message_that_was_tried_again_and_given_up_has_one_line_with_its_trace(stage: Stage) -> None:
    stage.producer.send("orders", "first")
    stage.consume()
    record = sent(stage)
    stage.admin.send_back("billing", record, delay_level=18, max_reconsume_times=16)
    stage.admin.send_back("billing", record, delay_level=-1, max_reconsume_times=0)
    stage.mirror.run_once()
    (parked,) = [step for step in steps(record) if step.kind is StepKind.PARKED]
    tell(
        stage, record, sent_event(record, at_ms=record.store_ms - 5),
        # of the same ms as what was written because of it
        consumed_events(record, at_ms=parked.ms or 0, worked="false", took_ms=31),
    )  # fmt: skip
    found = steps(record)
    assert [step.kind for step in found] == [
        StepKind.SENT, StepKind.STORED, StepKind.CONSUMED, StepKind.PARKED, StepKind.DEAD_LETTER,
    ]  # fmt: skip
    produced, stored, consumed, _, dead = found
    assert (produced.group, produced.client, produced.took_ms, produced.succeeded) == ("shop", "10.0.0.7", 5, True)
    assert (consumed.group, consumed.client, consumed.took_ms, consumed.succeeded) == ("billing", "10.0.0.9", 31, False)
    assert [step.is_told for step in found] == [True, False, True, False, False]
    assert produced.hop == consumed.hop == stored.hop
    assert stored.hop is not None and stored.hop.position == record.position
    assert stored.after_ms == 5
    assert (dead.group, dead.hop.topic if dead.hop else "") == ("billing", "%DLQ%billing")
    assert dead.hop is not None
    assert [step.kind for step in messages_read.message(dead.hop.offset_message_id).steps] == [
        step.kind for step in found
    ]


def test_a_python_clients_hops_are_on_the_line_when_it_traces(stage: Stage) -> None:
    namesrv, got = stage.broker.namesrv, threading.Event()
    with Producer("shop", namesrv, trace=True) as producer:
        made = producer.send("orders", "pay", keys=["order-1"], queue_id=0)
    consumer = Consumer("billing", namesrv, from_where="first", trace=True)
    consumer.subscribe("orders", "*", lambda message: got.set())
    with consumer:
        assert got.wait(20), "the consumer got nothing"
    found = steps(stage.admin.message_by_offset_id(made.offset_message_id))
    assert {step.kind for step in found} == {StepKind.SENT, StepKind.STORED, StepKind.CONSUMED}
    told = {step.kind: step for step in found if step.is_told}
    produced, consumed = told[StepKind.SENT], told[StepKind.CONSUMED]
    assert (produced.group, produced.succeeded) == ("shop", True)
    assert (consumed.group, consumed.succeeded, consumed.retries) == ("billing", True, 0)
    assert consumed.took_ms is not None
    assert produced.hop == consumed.hop
    assert produced.hop is not None
    assert produced.hop.queue_offset == made.queue_offset


def test_a_try_again_is_told_at_the_record_of_that_try(stage: Stage) -> None:
    stage.producer.send("orders", "first")
    stage.consume()
    record = sent(stage)
    stage.admin.send_back("billing", record, delay_level=1, max_reconsume_times=16)

    def is_back() -> bool:
        stage.mirror.run_once()
        return any(step.kind is StepKind.RETRY for step in steps(record))

    stage.wait_for(is_back)
    again = next(step for step in steps(record) if step.kind is StepKind.RETRY)
    assert again.ms is not None
    tell(stage, record, consumed_events(record, at_ms=again.ms + 1, tries=1))
    consumed = next(step for step in steps(record) if step.kind is StepKind.CONSUMED)
    assert (consumed.hop, consumed.retries) == (again.hop, 1)


def test_without_a_trace_the_page_says_so_and_still_shows_the_log(stage: Stage, operator: Client) -> None:
    record = sent(stage)
    page = words(operator.get(f"/messages/{record.offset_message_id}/"))
    assert NO_TRACE in page
    assert [step.kind for step in steps(record)] == [StepKind.BORN, StepKind.STORED]
    tell(stage, record, sent_event(record, at_ms=record.store_ms))
    page = words(operator.get(f"/messages/{record.offset_message_id}/"))
    assert NO_TRACE not in page
    assert "reported by clients, by their own clocks" in page


def test_every_step_that_has_a_record_leads_to_it(stage: Stage, operator: Client) -> None:
    stage.producer.send("orders", "first")
    stage.consume()
    record = sent(stage)
    stage.admin.send_back("billing", record, delay_level=-1, max_reconsume_times=0)
    stage.mirror.run_once()
    dead = steps(record)[-1].hop
    assert dead is not None
    html = operator.get(f"/messages/{record.offset_message_id}/").content.decode()
    life = html[html.index('id="life-title"') : html.index('id="hops-title"')]
    assert f'href="/messages/{dead.offset_message_id}/"' in life
    assert 'href="/groups/billing/"' in life


def test_whatever_a_trace_holds_nothing_of_it_runs_or_breaks_the_page(stage: Stage, operator: Client) -> None:
    record = sent(stage)
    for text in HOSTILE:
        tell(
            stage, record, sent_event(record, at_ms=record.store_ms, group=text, client=text),
            consumed_events(record, at_ms=record.store_ms, group=text, client=text, request=text),
        )  # fmt: skip
    for at_ms, took_ms in ((10**30, 10**40), (-(10**20), -5), (0, 0), (253_402_300_799_999, 1)):
        tell(stage, record, consumed_events(record, at_ms=at_ms, request=f"R{at_ms}", took_ms=took_ms))
    answer = operator.get(f"/messages/{record.offset_message_id}/")
    assert answer.status_code == 200
    html = answer.content.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert {name for tag, held in tags_of(html) for name in held if name.startswith("on")} == set()
    assert not any(
        "alert(" in (value or "") for _, held in tags_of(html) for name, value in held.items() if name == "href"
    )
    assert "<script>alert" not in html
    assert not re.search(r"<hx-partial hx-target='#main'", html)


def test_what_is_told_is_counted_and_only_the_first_of_it_is_shown(stage: Stage, operator: Client) -> None:
    record = sent(stage)
    tell(stage, record, *(sent_event(record, at_ms=record.store_ms + each) for each in range(TOLD_LIMIT + 50)))
    page = messages_read.message(record.offset_message_id)
    assert page.told == TOLD_LIMIT + 50
    assert sum(step.is_told for step in page.steps) == TOLD_LIMIT
    assert f"The first {TOLD_LIMIT} of {page.told} reported steps are shown." in words(
        operator.get(f"/messages/{record.offset_message_id}/")
    )


def test_the_two_events_of_one_consumption_are_one_line() -> None:
    begin = {"message_id": "M", "client": "c"}
    assert told_of([
        Trace("delivered", at_ms=100, group="a", request_id="R", retries=2, **begin),
        Trace("delivered", at_ms=100, group="b", request_id="R", **begin),
        Trace("handled", "M", 107, "b", took_ms=7, succeeded=False, request_id="R"),
        Trace("handled", "M", None, None, took_ms=9, succeeded=True, request_id="R"),
        Trace("handled", "M", 300, "a", took_ms=20, succeeded=True, request_id="lost"),
        Trace("handled", "M", None, "a", took_ms=20, succeeded=True, request_id="lost too"),
    ]) == (
        Told("consumed", 100, "a", None, "c", 9, True, 2),
        Told("consumed", 100, "b", None, "c", 7, False),
        Told("consumed", 280, "a", None, None, 20, True),
        Told("consumed", None, "a", None, None, 20, True),
    )  # fmt: skip
