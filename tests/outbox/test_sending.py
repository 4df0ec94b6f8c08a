"""send_on_commit and send_later, and the commands that run beside the web processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections, transaction
from opentelemetry import trace

from broker.client import Decision, InvalidArgument
from broker.outbox import send_later, send_on_commit, transactional
from broker.outbox.after_commit import Worker
from broker.outbox.models import OutboxMessage
from broker.outbox.transaction_block import close_all, producer_of
from tests.client.halfbroker import HalfBroker
from tests.client.recording import RecordingProvider
from tests.interop.process import Child
from tests.interop.servers import says
from tests.interop.waiting import wait_until
from tests.outbox.raising import Changed, raised

pytestmark = pytest.mark.django_db(transaction=True)
REPOSITORY = Path(__file__).parents[2]
START_S = 60
ORIGIN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def command(tmp_path: Path, database_url: str, broker: HalfBroker) -> Iterator[Any]:
    """Start management commands in processes of their own, against the test's database and broker."""
    started: list[Child] = []
    settings = tmp_path / "outbox_settings.py"
    settings.write_text(
        "from console.site.settings import *\n"
        f"ESCAPEMENT_NAMESRV = {broker.namesrv!r}\nESCAPEMENT_PRODUCER_GROUPS = ['shop', 'billing']\n"
    )

    def start(*arguments: str) -> Child:
        env = {
            "DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "outbox_settings",
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(tmp_path)]),
        }  # fmt: skip
        child = Child([sys.executable, str(REPOSITORY / "manage.py"), *arguments], log=tmp_path / "log", env=env)
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()


def test_on_commit_sends_after_the_commit_only(broker: HalfBroker) -> None:
    with transaction.atomic():
        send_on_commit("orders", "4711", tag="made")
        assert broker.plain == []
    with raised(Changed), transaction.atomic():
        send_on_commit("orders", "never")
        raise Changed
    with transactional() as block:
        send_on_commit("orders", "in a block")
        block.send("orders", "half")
    assert broker.plain == [("orders", b"4711"), ("orders", b"in a block")]


def test_on_commit_says_what_it_lost(broker: HalfBroker, caplog: pytest.LogCaptureFixture) -> None:
    broker.send_code = 14
    with transaction.atomic():
        send_on_commit("orders", "4711")
    assert "is lost" in caplog.text
    with pytest.raises(InvalidArgument):
        send_on_commit("orders", "4711", tag="two words")


def test_later_is_sent_by_the_worker_and_only_if_committed(broker: HalfBroker) -> None:
    with transaction.atomic():
        kept = send_later("orders", "红", tag="made", keys=["4711"], properties={"colour": "red"})
    with raised(Changed), transaction.atomic():
        send_later("orders", "never")
        raise Changed
    call_command("outbox", "--once")
    assert broker.plain == [("orders", "红".encode())]
    assert not OutboxMessage.objects.filter(pk=kept.pk).exists()


def test_a_message_for_later_carries_the_context_of_who_wrote_it(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = RecordingProvider()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", recorded)
    with recorded.get_tracer().start_as_current_span("request") as request:
        row = send_later("orders", "4711")
        brought = send_later("orders", "4712", properties={"traceparent": ORIGIN})
    _, created, other = recorded.spans
    assert (created.name, created.parent, created.has_ended) == ("create orders", request.get_span_context(), True)
    assert created.attributes["messaging.message.id"] == row.message_id
    about = created.get_span_context()
    assert f"traceparent\x0100-{about.trace_id:032x}-{about.span_id:016x}-01\x02".encode() in row.properties
    assert f"traceparent\x01{ORIGIN}\x02".encode() in brought.properties
    assert brought.properties.count(b"traceparent") == len(other.links) == 1


def test_rows_that_another_worker_has_taken_are_passed(broker: HalfBroker) -> None:
    send_later("orders", "taken")
    send_later("orders", "free")
    other = connections.create_connection("default")
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("SELECT id FROM escapement_outbox_message ORDER BY id LIMIT 1 FOR UPDATE")
        assert Worker(producer_of("shop"), "default").turn().sent == 1
    finally:
        other.rollback()
        other.close()
    assert broker.plain == [("orders", b"free")]


def test_messages_that_can_never_be_sent_are_refused_at_once(broker: HalfBroker) -> None:
    with pytest.raises(InvalidArgument):
        send_later("orders", bytes(5 << 20))
    with pytest.raises(InvalidArgument):
        send_later("SCHEDULE_TOPIC_XXXX", "4711")
    assert not OutboxMessage.objects.exists()


@pytest.mark.parametrize("name", ["checkback", "outbox"])
def test_commands_without_settings_say_what_is_missing(name: str, settings: Any) -> None:
    settings.ESCAPEMENT_PRODUCER_GROUPS = []
    with pytest.raises(CommandError, match="ESCAPEMENT_PRODUCER_GROUPS"):
        call_command(name)


def test_checks_are_answered_when_every_web_process_is_dead(broker: HalfBroker, command: Any) -> None:
    broker.end_code = 1
    with transactional("default", "billing") as block:
        half = block.send("bills", "4711")
    close_all()
    broker.end_code = 0
    checkback = command("checkback")
    checkback.wait_for(says("answering checks of shop, billing"), START_S, "checkback")
    broker.wait_for_producer("billing")
    broker.check(half.transaction_id)
    stored = broker.half(half.transaction_id)
    broker.wait(lambda: len(stored.decisions) == 2)
    assert (stored.codes, checkback.stop()) == ([Decision.COMMIT, Decision.COMMIT], 0)


def test_the_outbox_command_sends_until_it_is_stopped(broker: HalfBroker, command: Any) -> None:
    worker = command("outbox")
    worker.wait_for(says("sending the outbox"), START_S, "outbox")
    send_later("orders", "4711")
    assert wait_until(lambda: broker.plain == [("orders", b"4711")])
    assert wait_until(lambda: not OutboxMessage.objects.exists())
    assert worker.stop() == 0
