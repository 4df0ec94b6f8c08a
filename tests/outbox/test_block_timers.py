"""Timers by key in a transactional block, with a real broker and PostgreSQL: done if and only if the block commits."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from broker.client import Admin, InvalidArgument, NotSupported, Producer
from broker.outbox import producer as innermost
from broker.outbox import transactional
from broker.outbox.configuration import BlockEnded, NotInTransaction
from broker.outbox.models import OutboxHalf
from broker.outbox.transaction_block import close_all, producer_of
from broker.testing import BrokerThread, small_store
from tests.client.halfbroker import HalfBroker
from tests.cluster import Cluster
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = timedelta(hours=1)
HOUR_MS = 3_600_000
TIMES = {"transaction_timeout_ms": 1_000, "transaction_interval_ms": 500, "transaction_checks": 255}


@pytest.fixture
def real(tmp_path: Path, settings: Any) -> Iterator[BrokerThread]:
    """A running broker to which Django's settings point; it asks soon."""
    with BrokerThread(replace(small_store(tmp_path), **TIMES)) as running, Admin(running.namesrv) as admin:
        settings.ESCAPEMENT_NAMESRV = running.namesrv
        settings.ESCAPEMENT_PRODUCER_GROUPS = ["shop"]
        admin.create_topic("orders", queues=1)
        yield running
        close_all()


@pytest.fixture
def plain(real: BrokerThread) -> Iterator[Producer]:
    with Producer("office", real.namesrv) as made:
        yield made


class RolledBack(Exception):
    """Ends a block."""


def due_in_hours(plain: Producer, key: str) -> int | None:
    found = plain.timers.get("orders", key)
    return None if found is None else round((found.due_ms - found.store_ms) / HOUR_MS)


@pytest.mark.parametrize("commits", [True, False])
def test_what_is_said_in_a_block_is_done_with_its_commit_or_never(plain: Producer, commits: bool) -> None:
    for key in ("cancelled", "moved", "replaced"):
        plain.timers.put("orders", key, "before", delay=HOUR)
    with suppress(RolledBack), transactional() as block:
        block.timers.cancel("orders", "cancelled", reason="paid")
        block.timers.move("orders", "moved", delay=5 * HOUR)
        block.timers.put("orders", "replaced", "after", delay=7 * HOUR)
        innermost.timers.put("orders", "new", "new", delay=9 * HOUR)
        seen = {key: block.timers.get("orders", key) is not None for key in ("cancelled", "new")}
        if not commits:
            raise RolledBack
    assert seen == {"cancelled": True, "new": False}, "nothing is done before the commit"
    hours = {key: due_in_hours(plain, key) for key in ("cancelled", "moved", "replaced", "new")}
    before = {"cancelled": 1, "moved": 1, "replaced": 1, "new": None}
    assert hours == ({"cancelled": None, "moved": 5, "replaced": 7, "new": 9} if commits else before)
    assert plain.timers.cancel("orders", "cancelled").outcome == ("already_cancelled" if commits else "cancelled")


def test_a_savepoint_that_is_rolled_back_takes_its_wishes_with_it(plain: Producer) -> None:
    for key in ("inner", "outer"):
        plain.timers.put("orders", key, "before", delay=HOUR)
    with transactional() as block:
        block.timers.cancel("orders", "outer")
        with suppress(RolledBack), transactional() as inner:
            inner.timers.cancel("orders", "inner")
            raise RolledBack
    assert (due_in_hours(plain, "inner"), due_in_hours(plain, "outer")) == (1, None)


def test_a_key_that_is_spoken_of_twice_in_a_block_is_what_was_said_last(plain: Producer) -> None:
    with transactional() as block:
        block.timers.put("orders", "gone", "x", delay=HOUR)
        block.timers.cancel("orders", "gone")
        block.timers.put("orders", "twice", "x", delay=HOUR)
        block.timers.put("orders", "twice", "x", delay=3 * HOUR)
        block.timers.put("orders", "moved", "x", delay=HOUR)
        block.timers.move("orders", "moved", delay=4 * HOUR)
        block.timers.cancel("orders", "back")
        block.timers.put("orders", "back", "x", delay=2 * HOUR)
    assert {key: due_in_hours(plain, key) for key in ("gone", "twice", "moved", "back")} == {
        "gone": None, "twice": 3, "moved": 4, "back": 2,
    }  # fmt: skip


ELSEWHERE = """
import json, os, sys
import django
from django.conf import settings
from console.site import settings as site
namesrv, database, when = sys.argv[1:4]
configured = {key: getattr(site, key) for key in dir(site) if key.isupper()}
configured["DATABASES"]["default"] |= json.loads(database)
configured |= {"ESCAPEMENT_NAMESRV": namesrv, "ESCAPEMENT_PRODUCER_GROUPS": ["shop"]}
settings.configure(**configured)
django.setup()
from datetime import timedelta
from django.db import transaction
from broker.outbox import transactional
HOUR = timedelta(hours=1)
with transaction.atomic():
    if when == "behind":
        transaction.on_commit(lambda: os._exit(9))  # the first one: behind COMMIT, before the broker is told
    with transactional() as block:
        timers = block.timers
        {work}
    os._exit(9)
"""


def killed(broker: BrokerThread, work: str, *, behind_commit: bool) -> None:
    """Run a block in a process that is killed right behind its COMMIT, or right before."""
    program = ELSEWHERE.replace("{work}", work)
    if behind_commit:
        program = program.removesuffix("    os._exit(9)\n")
    where = {key: connection.settings_dict[key] for key in ("NAME", "HOST", "PORT", "USER", "PASSWORD")}
    when = "behind" if behind_commit else "before"
    asked = [sys.executable, "-c", program, broker.namesrv, json.dumps(where), when]
    ended = subprocess.run(asked, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 9, ended.stderr


def settle(broker: BrokerThread) -> None:
    """Have somebody of the group there who answers, and wait until nothing is open."""
    producer_of("shop").start()
    with Admin(broker.namesrv) as admin:
        until(lambda: admin.transaction_status().open == 0)


SAID = """
        timers.cancel("orders", "cancelled")
        timers.move("orders", "moved", delay=5 * HOUR)
        timers.put("orders", "put", "x", delay=7 * HOUR)
        timers.put("orders", "gone", "x", delay=HOUR)
        timers.cancel("orders", "gone")
"""


@pytest.mark.parametrize("behind_commit", [True, False])
def test_a_process_that_is_killed_has_said_what_its_transaction_says(
    real: BrokerThread, plain: Producer, behind_commit: bool
) -> None:
    for key in ("cancelled", "moved"):
        plain.timers.put("orders", key, "before", delay=HOUR)
    killed(real, SAID, behind_commit=behind_commit)
    assert OutboxHalf.objects.count() == (5 if behind_commit else 0)
    assert (due_in_hours(plain, "cancelled"), due_in_hours(plain, "moved")) == (1, 1)
    settle(real)
    hours = [due_in_hours(plain, key) for key in ("cancelled", "moved", "put", "gone")]
    assert hours == ([None, 5, 7, None] if behind_commit else [1, 1, None, None])


def test_blocks_that_take_turns_end_with_the_last_one(real: BrokerThread, plain: Producer) -> None:
    """The broker learns of the first one by a check, mostly behind the commit of the second."""
    killed(real, 'timers.put("orders", "k", "first", delay=HOUR)', behind_commit=True)
    with transactional() as block:
        block.timers.put("orders", "k", "second", delay=6 * HOUR)
    settle(real)
    assert due_in_hours(plain, "k") == 6


def test_what_fired_before_the_commit_is_delivered_once(real: BrokerThread, plain: Producer) -> None:
    plain.timers.put("orders", "k", "x", delay_ms=1)
    with transactional() as block:
        until(lambda: [message.body for message in real.messages("orders")] == [b"x"])
        block.timers.move("orders", "k", delay=HOUR)
    assert due_in_hours(plain, "k") is None
    assert [message.body for message in real.messages("orders")] == [b"x"]


def test_a_half_that_acts_is_shown_as_what_it_does(real: BrokerThread, plain: Producer) -> None:
    plain.timers.put("orders", "k", "x", delay=HOUR)
    with Admin(real.namesrv) as admin:
        with transactional() as block:
            (half,) = block.timers.cancel("orders", "k", reason="paid")
            (row,) = admin.transactions().items
            assert (row.timer_act, row.schedule_key, row.topic) == ("cancel", "k", "orders")
        (told,) = (event for event in admin.transaction(half.transaction_id).life if event.kind == "timer cancelled")
        assert (told.reason, told.topic) == ("paid", "orders")
        with transactional() as block:
            (half,) = block.timers.move("orders", "k", delay=HOUR)
        assert "nothing changed" in [event.kind for event in admin.transaction(half.transaction_id).life]


def test_every_broker_of_the_topic_is_told(settings: Any) -> None:
    with Cluster(2) as cluster, Producer("office", cluster.namesrv) as office, Admin(cluster.namesrv) as admin:
        settings.ESCAPEMENT_NAMESRV, settings.ESCAPEMENT_PRODUCER_GROUPS = cluster.namesrv, ["shop"]
        admin.create_topic("orders", queues=1)
        for name in cluster.names:
            office.timers.put("orders", name, "x", delay=HOUR, broker=name)
        with transactional() as block:
            assert len([half for name in cluster.names for half in block.timers.cancel("orders", name)]) == 4
        assert [office.timers.get("orders", name) for name in cluster.names] == [None, None]
        close_all()


@pytest.mark.parametrize(
    "wish",
    [
        lambda timers: timers.put("orders", "k", "x", delay=HOUR),
        lambda timers: timers.move("orders", "k", delay=HOUR),
        lambda timers: timers.cancel("orders", "k"),
        lambda timers: timers.get("orders", "k"),
    ],
)
def test_apache_rocketmq_is_sent_nothing_and_no_row_is_written(broker: HalfBroker, wish: Callable[[Any], Any]) -> None:
    with pytest.raises(NotSupported, match="Apache RocketMQ"), transactional() as block:
        wish(block.timers)
    assert broker.halves == {}
    assert not OutboxHalf.objects.exists()


def test_a_wish_in_the_wrong_place_is_refused(real: BrokerThread) -> None:
    with pytest.raises(NotInTransaction):
        innermost.timers.cancel("orders", "k")
    with transactional() as block:
        timers = block.timers
        for wrong in (
            lambda: timers.put("orders", "k", "x", delay=HOUR, on_conflict="keep"),
            lambda: timers.put("orders", "k", "x", delay=HOUR, schedule_key="other"),
            lambda: timers.put("orders", "k", "x"),
            lambda: timers.move("orders", "k"),
            lambda: timers.cancel("orders", ""),
        ):
            with pytest.raises(InvalidArgument):
                wrong()
    with pytest.raises(BlockEnded):
        timers.cancel("orders", "k")
    assert not OutboxHalf.objects.exists()
