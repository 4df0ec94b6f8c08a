"""A message that is written in the console: checked, previewed, sent once, and got as it was written."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connection
from django.test import Client

from broker.client import Message, SimpleConsumer
from broker.mirror.models import MirrorState
from console.features.messages import send_operations
from console.operations import workflow
from console.operations.actor import Actor
from console.operations.errors import OutOfReach
from console.operations.models import AuditEntry, Operation
from console.security.models import MaskRule
from console.templatetags.escapement import moment
from tests.console.kept import hang_up
from tests.console.people import browser_of, person
from tests.console.security.test_limited import limited_person
from tests.console.stage import Stage
from tests.console.ui.test_pages import words

DRAFT = "/operations/draft/"
HOUR_MS = 3_600_000


def asked(browser: Client, **given: str) -> Any:
    """The answer to the form."""
    form = {"kind": "messages.send", "topic": "orders", "body": "hello", "body_as": "text", "when": "now"}
    return browser.post(DRAFT, {**form, **given})


def previewed(browser: Client, **given: str) -> str:
    """The address of the preview."""
    answer = asked(browser, **given)
    assert answer.status_code == 303, words(answer)
    return str(answer.headers["Location"])


def sent(browser: Client, **given: str) -> Operation:
    """The operation, once it is confirmed."""
    address = previewed(browser, **given)
    for _ in range(2):
        assert browser.post(f"{address}confirm/", {"reason": "because"}).status_code == 303
    return Operation.objects.get(pk=address.strip("/").rpartition("/")[2])


def faults(answer: Any) -> dict[str, str]:
    """What is wrong, by field, with the form that is shown again."""
    assert answer.status_code == 422
    return {name: field.fault for name, field in answer.context["f"].items() if field.fault}


def count(stage: Stage) -> int:
    return sum(each.max_offset for each in stage.admin.topic_stats("orders").queues)


@pytest.fixture
def consumer(stage: Stage) -> Iterator[SimpleConsumer]:
    with SimpleConsumer("billing", stage.broker.namesrv) as made:
        yield made


def got(consumer: SimpleConsumer) -> Message:
    """The one message that comes."""
    (received,) = consumer.receive("orders", wait_ms=10_000)
    consumer.ack(received)
    return received.message


def followed(browser: Client, row: Operation) -> str:
    """The page that the result leads to."""
    page = browser.get(f"/operations/{row.pk}/")
    item = row.items.get()
    now = send_operations.SendMessage().item_now(item)
    assert now is not None
    assert f'href="{now.address}"' in page.content.decode()
    return words(browser.get(now.address))


def test_the_form_says_what_can_be_cancelled_and_what_a_half_needs(stage: Stage, operator: Client) -> None:
    page = operator.get("/topics/orders/send/")
    for hint in (
        "Any time or delay makes a timer, which can be cancelled and rescheduled.",
        "what is on one cannot be changed any more",
        "it is found by them. Many messages may share one.",
        "Unlike keys, only one message of the topic can be pending under it",
        "consumers can subscribe to some tags only",
        "counts from your confirmation",
    ):
        assert hint in words(page), hint
    assert "Producer group that decides (required)" in words(page)
    assert 'data-needed-with="half"' in page.content.decode()
    assert "producer_group" in faults(asked(operator, half="1"))


def test_a_consumer_gets_what_was_written(stage: Stage, operator: Client, consumer: SimpleConsumer) -> None:
    body = '{\r\n  "order": 1.10\r\n}'
    more = {"keys": " order-1  paid ", "tag": "created", "properties": "shop=north\nnote=a = b", "sharding_key": "7"}
    row = sent(operator, body=body, body_as="json", **more)
    assert row.results == {"sent": 1}, row.items.get().result
    message = got(consumer)
    assert message.body == b'{\n  "order": 1.10\n}'
    assert (message.keys, message.tags) == (["order-1", "paid"], "created")
    assert message.properties["shop"] == "north"
    assert message.properties["note"] == "a = b"
    assert message.properties["__SHARDINGKEY"] == "7"
    assert "order-1" in followed(operator, row)
    assert count(stage) == 1


def test_it_comes_when_it_is_due(stage: Stage, operator: Client, consumer: SimpleConsumer) -> None:
    begun_ms = time.time_ns() // 1_000_000
    for given, outcome in (({"when": "1"}, "waits"), ({"when": "moment", "moment": "+1s"}, "waits")):
        row = sent(operator, **given)
        assert row.results == {outcome: 1}, row.items.get().result
        assert got(consumer).body == b"hello"
        due_ms = row.items.get().result["due_ms"]
        assert begun_ms + 1_000 <= due_ms <= time.time_ns() // 1_000_000
    stage.mirror.run_once()
    later = sent(operator, when="moment", moment="2036-11-21T15:00:00+08:00")
    assert later.results == {"waits": 1}
    stage.wait_for(lambda: stage.admin.timers(0, 2**62).items)
    assert "orders" in followed(operator, later)


def test_what_waits_under_a_key_is_shown_and_replaced_or_kept(stage: Stage, operator: Client) -> None:
    keyed = {"when": "moment", "moment": "+2h", "schedule_key": "order-1"}
    first = sent(operator, body="first", **keyed)
    again = asked(operator, body="second", **keyed)
    assert set(faults(again)) == {"on_conflict"}
    assert ">second</textarea>" in again.content.decode()
    page = words(operator.get(previewed(operator, body="second", on_conflict="keep", **keyed)))
    assert "It stays, and this one is not sent." in page
    assert (
        f"/timers/{first.items.get().result['position']}/"
        in operator.get(previewed(operator, on_conflict="keep", **keyed)).content.decode()
    )
    kept = sent(operator, body="second", on_conflict="keep", **keyed)
    assert kept.results == {"kept": 1}
    assert kept.items.get().result["position"] == first.items.get().result["position"]
    assert "This one replaces it" in words(operator.get(previewed(operator, on_conflict="replace", **keyed)))
    assert sent(operator, body="third", on_conflict="replace", **keyed).results == {"replaced": 1}
    (timer,) = stage.admin.timers(0, 2**62).items
    assert stage.admin.message_by_offset_id(timer.offset_message_id).body == b"third"


def test_a_half_waits_until_it_is_decided(stage: Stage, operator: Client, consumer: SimpleConsumer) -> None:
    page = words(operator.get(previewed(operator, half="1", producer_group="shop")))
    assert "on commit: shop is checked" in page
    assert "/api/v1/transactions" in page
    row = sent(operator, half="1", producer_group="shop", keys="order-1")
    assert row.results == {"half_sent": 1}, row.items.get().result
    (half,) = stage.admin.transactions("open").items
    assert (half.group, half.keys) == ("shop", ["order-1"])
    assert count(stage) == 0
    assert "order-1" in followed(operator, row)
    actor = Actor.of(person("boss", role="operator"))
    place = {"offset": half.offset, "position": half.position}
    workflow.start("transactions.commit", {"targets": [place]}, actor, reason="because")
    assert got(consumer).body == b"hello"


def test_the_preview_says_what_would_be_stored_and_who_reads_it(stage: Stage, operator: Client) -> None:
    page = words(operator.get(previewed(operator, body="hello", keys="order-1", properties="shop=north")))
    for text in ("5 B", "immediately", "no subscriptions", "2 writable queues", "order-1", "north", "hello"):
        assert text in page, text
    assert "/api/v1/topics/orders/messages" in page
    stage.producer.send("orders", "x", queue_id=0)
    stage.consume()
    page = words(operator.get(previewed(operator)))
    assert "billing" in page
    assert "consumers connected" in page
    stage.admin.create_topic("bills", queues=1)
    stage.admin.move_group("billing", "bills", 0, 0)
    stage.mirror.run_once()
    # a group that reads more than she sees is seen by what it reads of hers (decision 0030)
    shown = words(browser_of(limited_person("anna", "orders")).get(previewed(operator)))
    assert "billing" in shown
    assert "bills" not in shown


def test_what_is_refused_writes_nothing_and_keeps_what_was_typed(stage: Stage, operator: Client) -> None:
    late = {"when": "moment", "moment": "2020-11-21T15:00:00Z"}
    far = {"when": "moment", "moment": "+100000 d"}
    typed = {"keys": "order-1", "properties": "shop=north", "sharding_key": "7"}
    for given, field in (
        ({"body": '{"a":}', "body_as": "json"}, "body"), (late, "moment"), (far, "moment"),
        ({"properties": "TAGS=x"}, "properties"), ({"tag": "two words"}, "tag"), ({"topic": "ordres"}, "topic"),
    ):  # fmt: skip
        answer = asked(operator, **{**typed, **given})
        assert set(faults(answer)) == {field}, given
        shown = {name: each.value for name, each in answer.context["f"].items()}
        assert shown.items() >= {**typed, **given}.items()
    assert Operation.objects.count() == AuditEntry.objects.count() == count(stage) == 0
    assert stage.admin.topic_settings("ordres") is None


def test_a_topic_that_takes_nothing_is_refused(stage: Stage, operator: Client) -> None:
    stage.admin.set_topic("orders", {"perm": 4})
    stage.mirror.run_once()
    assert set(faults(asked(operator))) == {"topic"}
    assert operator.get("/topics/orders/send/").status_code == 404


def test_a_topic_that_the_mirror_does_not_know_yet_takes_it(stage: Stage, operator: Client) -> None:
    stage.admin.create_topic("new", queues=1)
    assert sent(operator, topic="new").results == {"sent": 1}


def test_a_half_with_a_delay_is_refused_where_it_would_be_lost(stage: Stage, operator: Client) -> None:
    MirrorState.mirror_writer.update(polling=True)
    assert set(faults(asked(operator, when="1", half="1", producer_group="shop"))) == {"when"}


def test_it_has_a_permission_of_its_own(stage: Stage, operator: Client) -> None:
    viewer, sender = person("viewer"), person("sender", "send_messages")
    browser = browser_of(viewer)
    assert browser.get("/topics/orders/send/").status_code == 403
    assert asked(browser).status_code == 403
    page = browser.get("/topics/orders/").content.decode()
    assert "console.send_messages" in page
    assert "/topics/orders/send/" not in page
    assert AuditEntry.objects.get(actor="viewer").what == "denied"
    assert sent(browser_of(sender)).results == {"sent": 1}
    assert person("other", role="operator").has_perm("console.send_messages")
    assert not viewer.has_perm("console.send_messages")


def test_it_is_bound_to_the_topics_that_one_sees(stage: Stage) -> None:
    stage.admin.create_topic("bills", queues=1)
    stage.mirror.run_once()
    anna = limited_person("anna", "ord")
    browser = browser_of(anna)
    assert sent(browser).results == {"sent": 1}
    for topic in ("bills", "nothing"):
        assert asked(browser, topic=topic).status_code == 403
        assert browser.get(f"/topics/{topic}/send/").status_code == 404
        with pytest.raises(OutOfReach):
            workflow.draft("messages.send", {"topic": topic, "body": "x"}, Actor.of(anna))


def test_the_audit_keeps_the_beginning_of_the_body(stage: Stage, operator: Client) -> None:
    body = "x" * 200 + "secret"
    row = sent(operator, body=body, keys="order-1")
    confirmed = AuditEntry.objects.get(what="confirmed")
    kept = confirmed.result["parameters"]
    assert kept == {"topic": "orders", "body": f"{'x' * 200}…", "keys": ["order-1"]}
    assert (confirmed.reason, confirmed.actor) == ("because", "operator")
    assert "secret" not in str(list(AuditEntry.objects.values_list("result", flat=True)))
    calls = operator.get(previewed(operator, body=body)).content.decode().partition('id="again-title"')[2]
    assert "xxx…" in calls
    assert "secret" not in calls
    assert stage.admin.message_by_offset_id(row.items.get().result["message_id"]).body == body.encode()


def test_what_a_rule_masks_is_masked_on_its_page(stage: Stage, operator: Client) -> None:
    MaskRule.objects.create(prefix="ord", fields="body, KEYS, shop", why="personal")
    page = operator.get(previewed(operator, body="secret-1", keys="secret-2", properties="shop=secret-3"))
    assert "secret" not in page.content.decode()
    assert words(page).count("masked: personal") > 3
    row = sent(operator, body="secret-1", keys="secret-2")
    assert "secret" not in operator.get(f"/operations/{row.pk}/").content.decode()


def test_what_is_not_known_is_said_so(stage: Stage, operator: Client) -> None:
    address = previewed(operator, keys="order-1")
    stage.broker.stop()
    operator.post(f"{address}confirm/", {"reason": "because"})
    row = Operation.objects.get()
    assert row.results == {"unknown": 1}
    page = operator.get(address)
    assert "It is unknown whether the broker stored it" in words(page)
    assert "/messages/?topic=orders&amp;q=order-1" in page.content.decode()
    assert "Continue with remaining items" not in words(page)


def test_while_nobody_answers_what_was_typed_is_kept(transactional_db: None, settings: Any, free_port: int) -> None:
    settings.ESCAPEMENT_NAMESRV = f"127.0.0.1:{free_port}"
    browser = browser_of(person("sender", "send_messages"))
    assert browser.get("/topics/orders/send/").status_code == 200
    answer = asked(browser, body="a long text")
    assert answer.status_code == 422
    assert ">a long text</textarea>" in answer.content.decode()
    assert Operation.objects.count() == 0
    hang_up()


def test_what_the_broker_refuses_is_said(stage: Stage, operator: Client) -> None:
    address = previewed(operator)
    stage.admin.set_topic("orders", {"perm": 4})
    operator.post(f"{address}confirm/", {"reason": "because"})
    assert Operation.objects.get().results == {"refused": 1}
    assert count(stage) == 0


def test_the_form_begins_with_what_a_stored_message_has(stage: Stage, operator: Client) -> None:
    properties = {"shop": "north", "RESENT_FROM": "x"}
    stored = stage.producer.send("orders", '{"a": 1}', keys=["k-1", "k-2"], tag="paid", properties=properties)
    raw = stage.producer.send("orders", b"\xff\x00", delay_level=18, sharding_key="7")
    line = stage.producer.send("orders", "a\r\nb")
    page = operator.get(f"/messages/{stored.offset_message_id}/").content.decode()
    address = f"/topics/orders/send/?like={stored.offset_message_id}"
    assert f'href="{address}"' in page

    def begun(message_id: str, **more: str) -> dict[str, str]:
        answer = operator.get("/topics/orders/send/", {"like": message_id, **more})
        return {name: field.value for name, field in answer.context["f"].items() if field.value}

    whole = {"topic": "orders", "body": '{"a": 1}', "body_as": "json", "keys": "k-1 k-2", "tag": "paid"}
    assert begun(stored.offset_message_id) == {**whole, "properties": "shop=north"}
    assert begun(stored.message_id, of="orders") == {**whole, "properties": "shop=north"}
    bytes_of = {"topic": "orders", "body": "/wA=\n", "body_as": "base64", "sharding_key": "7"}
    assert begun(raw.offset_message_id) == bytes_of
    assert begun(line.offset_message_id)["body_as"] == "base64"
    row = sent(operator, **begun(stored.offset_message_id))
    assert stage.admin.message_by_offset_id(row.items.get().result["message_id"]).body == b'{"a": 1}'
    empty = operator.get("/topics/orders/send/?like=nothing&of=orders")
    assert (empty.status_code, "There is no such message." in empty.content.decode()) == (200, True)


def test_what_is_masked_or_not_seen_is_not_copied(stage: Stage, operator: Client) -> None:
    stage.admin.create_topic("bills", queues=1)
    stage.mirror.run_once()
    properties = {"shop": "secret-3", "two": "lines\nhere"}
    stored = stage.producer.send("orders", "secret-1", keys=["secret-2"], tag="paid", properties=properties)
    address = f"/topics/bills/send/?like={stored.offset_message_id}"
    MaskRule.objects.create(prefix="ord", fields="body, KEYS, shop", why="personal")
    page = operator.get(address)
    assert "secret" not in page.content.decode()
    assert page.context["f"]["tag"].value == "paid"
    assert page.context["f"]["properties"].value == ""
    assert "the body, which a rule masks" in words(page)
    assert "KEYS, shop" in words(page)
    assert "do not fit into a line" in words(page)
    unseen = browser_of(limited_person("ben", "bills")).get(address)
    assert "There is no such message." in words(unseen)
    assert unseen.context["copied"] is None


def test_what_cannot_be_written_here_is_not_copied(stage: Stage, operator: Client) -> None:
    large = stage.producer.send("orders", "x" * 65_537)
    page = operator.get(f"/topics/orders/send/?like={large.offset_message_id}")
    assert "too large" in words(page)
    assert page.context["f"]["body"].value == ""


def test_the_palette_leads_to_the_form(stage: Stage, operator: Client) -> None:
    for name in ("orders-2", "bills"):
        stage.admin.create_topic(name, queues=1)
    stage.mirror.run_once()

    def offered(text: str, browser: Client = operator) -> list[str]:
        jumps = browser.get("/find/", {"q": text, "part": "1"}).context["jumps"]
        return [jump.address for jump in jumps if jump.address.endswith("/send/")]

    both = ["/topics/orders/send/", "/topics/orders-2/send/"]
    assert offered("send orders") == offered("发送 ord") == both
    assert offered("send orders-2") == both[1:]
    assert offered("send nothing") == []
    assert offered("send b", browser_of(limited_person("anna", "ord"))) == []
    assert offered("send orders", browser_of(person("viewer"))) == []
    answer = operator.post("/find/act/", {"do": "send orders"})
    assert (answer.status_code, answer.headers["Location"]) == (302, both[0])


def test_it_is_sent_from_a_shell(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    given = '{"topic": "orders", "body": "hello", "delay_level": 3}'
    call_command("operate", "messages.send", given, "--reason", "because", "--run")
    assert '"results": {"waits": 1}' in capsys.readouterr().out


def test_of_several_it_goes_to_the_broker_that_is_chosen(stage: Stage, operator: Client) -> None:
    answer: Any = operator.post(f"/at/broker-a{DRAFT}", {
        "kind": "messages.send", "topic": "orders", "body": "x", "body_as": "text", "when": "now",
    })  # fmt: skip
    assert answer.status_code == 303
    assert '"broker": "broker-a"' in words(operator.get(answer.headers["Location"])).replace("&quot;", '"')


def test_roles_that_send_dead_letters_again_get_the_permission(db: None) -> None:
    role = Group.objects.create(name="old")
    operators = Group.objects.get(name="operator")
    permission = operators.permissions.get(codename="send_messages")
    role.permissions.add(operators.permissions.get(codename="resend_dead_letters"))
    permission.delete()
    migration = import_module("console.migrations.0031_send_messages")
    migration.give(apps, SimpleNamespace(connection=connection))
    for each in (role, operators):
        assert each.permissions.filter(codename="send_messages", name="Can send messages").exists()
    assert not Group.objects.get(name="viewer").permissions.filter(codename="send_messages").exists()


def at_text(ms: int) -> str:
    """A moment as pages write it."""
    return re.sub(r"<[^>]*>", "", moment(ms))


def now_said(browser: Client, row: Operation) -> str:
    """The page of an operation that is over."""
    return words(browser.get(f"/operations/{row.pk}/"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"when": "moment", "moment": "+10 min"}, "Delivered 10 min after you confirm"),
        ({"when": "moment", "moment": "10 min"}, "Delivered 10 min after you confirm"),
        ({"when": "moment", "moment": "10 minutes"}, "Delivered 10 min after you confirm"),
        ({"when": "14"}, "Delivered 10 min after you confirm · level 14"),
    ],
)
def test_a_delay_counts_from_the_confirmation(stage: Stage, operator: Client, given: Any, said: str) -> None:
    """The preview named a moment that counted from the preview; the broker counts from when it takes the message."""
    address = previewed(operator, **given)
    assert said in words(operator.get(address))
    row = Operation.objects.get()
    assert (row.preview["due_ms"], row.preview["delay_ms"]) == (None, 600_000)
    assert row.preview["examples"][0]["due_ms"] is None
    begun_ms = time.time_ns() // 1_000_000
    operator.post(f"/operations/{row.pk}/confirm/", {"reason": "because"})
    item = row.items.get()
    assert begun_ms + 600_000 <= item.result["due_ms"] <= time.time_ns() // 1_000_000 + 600_000
    assert item.due_ms == item.result["due_ms"]
    page = now_said(operator, row)
    assert f"Now pending due {at_text(item.due_ms)}" in page
    assert "after you confirm" not in page


def test_the_page_says_what_became_of_it(stage: Stage, operator: Client, consumer: SimpleConsumer) -> None:
    """It said "pending until it is due" and "Open timer" when the message was consumed long since."""
    timer, lane = sent(operator, when="moment", moment="+1s", keys="a"), sent(operator, when="1", keys="b")
    assert {got(consumer).keys[0] for _each in range(2)} == {"a", "b"}
    stage.wait_for(lambda: not stage.admin.consume_stats("billing").lag)
    stage.mirror.run_once()
    for row in (timer, lane):
        page = now_said(operator, row)
        assert "received by 1 of 1 group" in page, page
        assert "pending" not in page
        assert "Open message" in page
        assert "Open timer" not in page
    assert "a" in followed(operator, timer)
    assert "Received" in followed(operator, timer)


def test_the_page_of_a_timer_that_was_moved_or_cancelled_says_so(stage: Stage, operator: Client) -> None:
    row = sent(operator, when="moment", moment="+1h")
    actor = Actor.of(person("boss", role="operator"))
    (timer,) = stage.admin.timers(0, 2**62).items
    later = timer.due_ms + 3_600_000
    chosen = {"targets": [{"position": timer.position}], "due_ms": later}
    workflow.start("timers.reschedule", chosen, actor, reason="because")
    (moved,) = stage.admin.timers(0, 2**62).items
    assert f"Now pending due {at_text(later)}" in now_said(operator, row)
    assert f'href="/timers/{moved.position}/"' in operator.get(f"/operations/{row.pk}/").content.decode()
    workflow.start("timers.cancel", {"targets": [{"position": moved.position}]}, actor, reason="because")
    assert "Now cancelled" in now_said(operator, row)


def test_the_page_of_a_half_says_what_was_decided(stage: Stage, operator: Client) -> None:
    row = sent(operator, half="1", producer_group="shop", keys="order-1")
    assert "Now undecided" in now_said(operator, row)
    (half,) = stage.admin.transactions("open").items
    actor = Actor.of(person("boss", role="operator"))
    place = {"offset": half.offset, "position": half.position}
    workflow.start("transactions.rollback", {"targets": [place]}, actor, reason="because")
    assert "Now rolled back" in now_said(operator, row)


def test_a_broker_that_is_away_takes_nothing_from_the_page(stage: Stage, operator: Client) -> None:
    row = sent(operator, when="moment", moment="+1h")
    due_ms = row.items.get().result["due_ms"]
    stage.broker.stop()
    page = now_said(operator, row)
    assert "Open timer" in page
    assert at_text(due_ms) in page
