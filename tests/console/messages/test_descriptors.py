"""The Protobuf descriptor of a topic: set by an operation, seen on pages, undone, and nobody else's."""

from __future__ import annotations

import gzip
import json
from io import StringIO
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.test import Client
from msgspec.structs import replace

from broker.client import prepare
from console.features.messages import descriptor_operations
from console.features.messages.models import TopicDescriptor, types_of
from console.features.messages.shapes import MessageFilter
from console.features.messages.through import messages_through
from console.operations import workflow
from console.operations.actor import Actor
from console.operations.errors import InvalidParameter, NotPossible
from console.operations.models import AuditEntry, Operation
from console.security.models import MaskRule
from console.security.topic_scope import current_scope, scoped, visible_topics
from tests.console.messages.proto_shop import ORDER, SHOP, base64_of, order, set_of, shop_file
from tests.console.people import browser_of, person
from tests.console.security.test_limited import limited_person
from tests.console.stage import Stage
from tests.console.ui.test_pages import words

PAGE = "/topics/orders/descriptor/"
LINE = f"{ORDER}.Line"


def uploaded(browser: Client, content: bytes = SHOP, page: str = PAGE, **given: str) -> Any:
    """The answer to the form."""
    file = {"set": SimpleUploadedFile("orders.binpb", content)} if content else {}
    return browser.post(f"{page}preview/", {**file, **given})


def confirmed(browser: Client, answer: Any, **given: str) -> Operation:
    """The operation that a form led to, once it is confirmed."""
    assert answer.status_code == 303, words(answer)
    address = str(answer.headers["Location"])
    done = browser.post(f"{address}confirm/", {"reason": "so that all can read it", **given})
    assert done.status_code == 303, words(done)
    return Operation.objects.get(pk=address.strip("/").rpartition("/")[2])


def set_for(actor: Actor, topic: str = "orders", type_name: str = ORDER, files: bytes = SHOP) -> Operation:
    """A descriptor that is set."""
    return workflow.start(
        "descriptors.change", {"topic": topic, "set": base64_of(files), "type": type_name}, actor, reason="because"
    )


def page_of(browser: Client, stage: Stage, body: bytes, **query: str) -> str:
    sent = stage.producer.send("orders", body)
    return words(browser.get(f"/messages/{sent.offset_message_id}/", query))


def test_it_is_uploaded_chosen_previewed_and_undone(stage: Stage, operator: Client) -> None:
    assert "No descriptor." in words(operator.get(PAGE))
    assert f'href="{PAGE}"' in operator.get("/topics/orders/").content.decode()
    answer = uploaded(operator, gzip.compress(SHOP))
    preview = operator.get(answer.headers["Location"])
    assert {ORDER, LINE} <= set(preview.context["data"].preview.types)
    refused = operator.post(f"{answer.headers['Location']}confirm/", {"reason": "because"})
    assert refused.status_code == 422
    assert "Choose the message type." in words(refused)
    assert not TopicDescriptor.objects.exists()
    row = confirmed(operator, answer, type=LINE)
    assert (row.results, row.items.get().outcome) == ({"described": 1}, "described")
    assert LINE in words(operator.get(PAGE))
    second = confirmed(operator, uploaded(operator, type=ORDER))
    assert TopicDescriptor.objects.get().type_name == ORDER
    for undone, expected in ((second, LINE), (row, None)):
        if expected is None:
            # what came behind it has to be undone first, and was: the set is the one that the first operation wrote
            assert TopicDescriptor.objects.get().type_name == LINE
        back = confirmed(operator, operator.post(f"/operations/{undone.pk}/undo/"))
        assert back.is_over
        assert [each.type_name for each in TopicDescriptor.objects.all()] == ([expected] if expected else [])
    told = AuditEntry.objects.filter(kind="descriptors.change", what="confirmed").order_by("id")
    assert {entry.reason for entry in told} == {"so that all can read it"}
    assert all(len(json.dumps(entry.result)) < 500 for entry in told), "the audit has the beginning of a set"


def test_what_was_changed_since_is_not_undone(stage: Stage, operator: Client, actor: Actor) -> None:
    first = set_for(actor)
    set_for(actor, type_name=LINE)
    refused = operator.post(f"/operations/{first.pk}/undo/")
    assert refused.status_code == 422
    assert "changed since" in words(refused)
    assert "nothing would change" in words(operator.get(uploaded(operator, type=LINE).headers["Location"]))
    removal = workflow.start("descriptors.change", {"topic": "orders"}, actor, reason="old")
    assert removal.results == {"descriptor_removed": 1}
    with pytest.raises(NotPossible):
        workflow.draft("descriptors.change", {"topic": "orders"}, actor)
    confirmed(operator, operator.post(f"/operations/{removal.pk}/undo/"))
    assert TopicDescriptor.objects.get().type_name == LINE


def test_what_cannot_be_used_is_refused_with_its_reason_in_the_form(stage: Stage, operator: Client) -> None:
    for content, type_name, why in (
        (b'syntax = "proto3";', "", "not a compiled descriptor set"), (b"x" * 300_000, "", "larger than 256 kB"),
        (b"", "", "Choose the file"), (SHOP, "shop.v1.Orders", "no message type shop.v1.Orders"),
        (set_of(shop_file(dependency=["shop/v1/none.proto"])), "", "shop/v1/none.proto"),
    ):  # fmt: skip
        answer = uploaded(operator, content, type=type_name)
        assert answer.status_code == 422
        assert why in words(answer)
        html = answer.content.decode()
        assert 'aria-invalid="true"' in html
        assert 'enctype="multipart/form-data"' in html
    assert not Operation.objects.exists() and not TopicDescriptor.objects.exists()
    missing = uploaded(operator, page="/topics/none/descriptor/", type=ORDER)
    assert missing.status_code == 422
    assert operator.get("/topics/none/descriptor/").status_code == 404


def test_a_set_with_one_type_needs_no_choice(stage: Stage, actor: Actor) -> None:
    file = shop_file()
    del file.message_type[0].nested_type[0], file.message_type[0].field[4]
    parameters = {"topic": "orders", "set": base64_of(set_of(file))}
    assert workflow.draft("descriptors.change", parameters, actor).parameters["type"] == ORDER
    with pytest.raises(InvalidParameter, match="topic"):
        workflow.draft("descriptors.change", {**parameters, "topic": ""}, actor)
    for wrong in ({"set": 5}, {"type": ["x"]}, {"expected": 7}, {"topic": "SCHEDULE_TOPIC_XXXX"}):
        with pytest.raises(InvalidParameter):
            workflow.draft("descriptors.change", {**parameters, **wrong}, actor)


def test_the_preview_says_how_many_of_the_newest_bodies_fit(stage: Stage, operator: Client, actor: Actor) -> None:
    assert "fit the type" not in words(operator.get(uploaded(operator, type=ORDER).headers["Location"]))
    for number in range(9):
        stage.producer.send("orders", order(id=number) if number % 3 else b'{"id": 1}', queue_id=number % 2)
    stage.producer.send("orders", gzip.compress(order(id=9)))
    assert "7 of the newest 10 messages fit the type." in words(
        operator.get(uploaded(operator, type=ORDER).headers["Location"])
    )
    # of what is masked nothing is asked
    MaskRule.objects.create(prefix="ord", fields="body", why="personal")
    masked = operator.get(uploaded(operator, type=ORDER).headers["Location"])
    assert masked.context["data"].preview.tried == 0


def test_as_many_are_kept_as_the_limit_says(stage: Stage, actor: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptor_operations, "MOST_DESCRIPTORS", 1)
    set_for(actor)
    stage.admin.create_topic("other", queues=1)
    stage.mirror.run_once()
    with pytest.raises(NotPossible, match="remove one first"):
        set_for(actor, "other")
    assert set_for(actor, type_name=LINE).results == {"described": 1}


def test_a_message_page_shows_the_type_and_its_fields(stage: Stage, operator: Client, actor: Actor) -> None:
    plain = page_of(operator, stage, order(id=7, customer="a<b>"))
    assert "Decoded by" not in plain and '"customer"' not in plain
    set_for(actor)
    shown = page_of(operator, stage, order(id=7, customer="a<b>"))
    assert "Decoded by the descriptor of the topic: shop.v1.Order" in shown
    assert '"customer": "a<b>"' in shown
    packed = gzip.compress(order(id=7) + b"\x98\x06\x01")
    assert "does not have these fields of the body: 99" in page_of(operator, stage, packed)
    other = page_of(operator, stage, b'{"id": 7}')
    assert "The bytes do not fit the type" in other and '"id": 7' in other
    assert "not of this format" in page_of(operator, stage, b'{"id": 7}', decode="protobuf")
    assert "larger than 256 kB" in page_of(operator, stage, order(raw=b"x" * 300_000))
    stored = page_of(operator, stage, order(id=7), decode="none")
    assert "Decoded by" not in stored and "Protobuf" in stored
    operator.cookies["django_language"] = "zh-hans"
    assert "已按主题的描述符解码" in page_of(operator, stage, order(id=7))


def test_what_waits_and_what_died_is_read_by_the_topic_it_was_sent_to(
    stage: Stage, operator: Client, actor: Actor
) -> None:
    set_for(actor)
    sent = stage.producer.send("orders", order(id=7), keys=["dead"])
    parked = stage.producer.send("orders", order(id=8), delay_level=17)
    stage.admin.create_group("billing")
    stage.admin.move_group("billing", "orders", 0, 0)
    record = stage.admin.message_by_offset_id(sent.offset_message_id)
    stage.admin.send_back("billing", record, delay_level=-1, max_reconsume_times=0)
    stage.wait_for(lambda: stage.admin.pull("%DLQ%billing", 0, 0, 1))
    stage.mirror.run_once()
    letter = stage.admin.pull("%DLQ%billing", 0, 0, 1)[0]
    for number, message_id in ((7, letter.offset_message_id), (8, parked.offset_message_id)):
        shown = words(operator.get(f"/messages/{message_id}/"))
        assert "Decoded by" in shown and f'"id": {number}' in shown
    found = messages_through("%DLQ%billing", MessageFilter(text='"id":7'))
    assert [hit.offset_message_id for hit in found.hits] == [letter.offset_message_id]


def test_search_reads_them(stage: Stage, operator: Client, actor: Actor) -> None:
    for number in range(4):
        stage.producer.send("orders", order(id=number, state=2 if number == 3 else 1), keys=[f"k-{number}"])
    wanted = MessageFilter(text='"state":"PAID"')
    assert not messages_through("orders", wanted).hits
    set_for(actor)
    assert [hit.keys for hit in messages_through("orders", wanted).hits] == [("k-3",)]
    page = operator.get("/messages/", {"topic": "orders", "text": '"state":"PAID"'})
    assert "k-3" in words(page)


def test_masks_hide_it_and_others_do_not_see_it(stage: Stage, actor: Actor) -> None:
    set_for(actor)
    anna, ben = browser_of(limited_person("anna", "ord")), browser_of(limited_person("ben", "pay"))
    assert anna.get(PAGE).status_code == 200
    assert ben.get(PAGE).status_code == 404
    assert uploaded(ben, type=ORDER).status_code == 404
    stage.admin.create_topic("payroll", queues=1)
    # a try of a group names the topic it was of by a property, which clients of others may write
    plain = prepare(order(id=7))
    said = f"{plain.properties}RETRY_TOPIC\x01orders\x02"
    forged = replace(plain, properties=said, message_id=plain.message_id)
    (sent,) = stage.producer.send_each("payroll", [forged])
    stage.mirror.run_once()
    assert ORDER not in words(ben.get(f"/messages/{sent.offset_message_id}/"))
    with scoped(visible_topics(limited_person("carl", "pay"))):
        assert types_of(current_scope(), ["orders"]) == {}
        assert not messages_through("payroll", MessageFilter(text='"id":7')).hits
    MaskRule.objects.create(prefix="ord", fields="body", why="personal")
    masked = page_of(anna, stage, order(id=7, customer="secret"))
    assert "personal" in masked and "secret" not in masked and ORDER not in masked


def test_who_may_only_look_changes_nothing(stage: Stage, actor: Actor) -> None:
    viewer = browser_of(person("viewer"))
    shown = words(viewer.get(PAGE))
    assert "This needs the permission console.change_settings" in shown
    assert uploaded(viewer, type=ORDER).status_code == 403
    assert AuditEntry.objects.filter(kind="descriptors.change", what="denied").exists()
    assert not TopicDescriptor.objects.exists()


def test_a_second_person_approves_the_type_that_was_chosen(stage: Stage, operator: Client, settings: Any) -> None:
    settings.SECOND_PERSON_KINDS = {"descriptors.change": 0}
    asked = confirmed(operator, uploaded(operator), type=LINE)
    assert asked.state == Operation.State.WAITING
    other = browser_of(person("other", role="operator"))
    assert LINE in words(other.get(f"/operations/{asked.pk}/"))
    assert other.post(f"/operations/{asked.pk}/approve/", {"reason": "yes"}).status_code == 303
    assert TopicDescriptor.objects.get().type_name == LINE


def test_a_shell_sets_it_too(stage: Stage) -> None:
    given = json.dumps({"topic": "orders", "set": base64_of(SHOP), "type": ORDER})
    out = StringIO()
    call_command("operate", "descriptors.change", given, "--run", "--reason", "because", stdout=out)
    assert json.loads(out.getvalue())["results"] == {"described": 1}
    assert TopicDescriptor.objects.get().actor.startswith("shell ")
    with pytest.raises(CommandError, match="base64"):
        call_command("operate", "descriptors.change", json.dumps({"topic": "orders", "set": "%"}))


def test_clusters_have_their_own(stage: Stage, actor: Actor) -> None:
    set_for(actor)
    TopicDescriptor.objects.create(cluster="lisbon", topic="orders", type_name=LINE, files=SHOP, digest="d", actor="a")
    assert types_of(current_scope(), ["orders"])["orders"].name == ORDER
