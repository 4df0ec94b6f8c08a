"""Half and op messages in the mirror: linked to each other and to what was delivered, few, and only looked at."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client

from broker.client import Admin, BrokerUnreachable, Decision, Half, Message, NotSupported, TransactionProducer, prepare
from broker.client.transactions import TransactionStatus
from broker.mirror import halves as mirroring
from broker.mirror.follower import Mirror
from broker.mirror.halves import HalfFollower
from broker.mirror.models import HalfMessage, MirrorReadOnlyError, OpMessage
from broker.mirror.writer import fit_rows
from console.operations.models import Operation
from console.site.broker import hang_up
from tests.mirror.running import RunningBroker


class Watching:
    """A follower that looks when it is told to, however soon."""

    def __init__(self, admin: Admin, name: str) -> None:
        self.follower = HalfFollower(admin)
        self.name = name
        self.now_ms = 0

    def look(self) -> bool:
        self.now_ms += mirroring.LONGEST_INTERVAL_MS
        return self.follower.look(self.name, self.now_ms)


@pytest.fixture
def watching(mirror: Mirror, admin: Admin) -> Watching:
    admin.create_topic("orders", queues=1)
    mirror.run_once()
    return Watching(admin, admin.brokers()[0].name)


@pytest.fixture
def shop(broker: RunningBroker) -> Iterator[TransactionProducer]:
    with TransactionProducer("shop", broker.namesrv, check=lambda message: Decision.UNKNOWN) as producer:
        yield producer


def begin(producer: TransactionProducer, *keys: str) -> list[Half]:
    return [producer.send_half("orders", prepare(key, keys=[key], tag="paid")) for key in keys]


def states() -> dict[str, str]:
    return {row.keys[0]: row.state for row in HalfMessage.objects.order_by("offset")}


def test_halves_and_ops_are_linked_to_each_other_and_to_the_message(
    watching: Watching, shop: TransactionProducer, admin: Admin
) -> None:
    paid, dropped, left = begin(shop, "paid", "dropped", "left")
    assert watching.look()
    assert states() == {"paid": "open", "dropped": "open", "left": "open"}
    row = HalfMessage.objects.get(offset=left.queue_offset)
    assert (row.position, row.topic, row.group, row.tag, row.checks) == (left.position, "orders", "shop", "paid", 0)
    assert row.op is None
    assert row.delivered_offset is None
    shop.commit(paid)
    shop.rollback(dropped)
    assert watching.look()
    assert states() == {"paid": "committed", "dropped": "rolled back", "left": "open"}
    committed = HalfMessage.objects.get(offset=paid.queue_offset)
    assert committed.decided_by.startswith("producer ")
    assert committed.op is not None
    assert paid.queue_offset in committed.op.half_offsets
    assert sum(op.commits for op in OpMessage.objects.all()) == 1
    assert sum(op.rollbacks for op in OpMessage.objects.all()) == 1
    copy = admin.message_by_id("orders", paid.transaction_id)
    assert copy is not None
    delivered = (committed.delivered_queue_id, committed.delivered_offset, committed.delivered_position)
    assert delivered == (copy.queue_id, copy.queue_offset, copy.position)
    assert {half.offset for op in OpMessage.objects.all() for half in op.halves.all()} == {
        paid.queue_offset, dropped.queue_offset,
    }  # fmt: skip


def test_nothing_is_read_while_nothing_moves(watching: Watching, shop: TransactionProducer) -> None:
    begin(shop, "a")
    assert watching.look()
    assert not watching.look()
    begin(shop, "b")
    assert not watching.follower.look(watching.name, watching.now_ms + 1), "it was looked a moment ago"
    assert watching.look()
    assert list(states()) == ["a", "b"]


def test_rows_are_few(watching: Watching, shop: TransactionProducer, monkeypatch: Any) -> None:
    monkeypatch.setattr(mirroring, "MOST_OPEN", 3)
    monkeypatch.setattr(mirroring, "MOST_DECIDED", 4)
    monkeypatch.setattr(mirroring, "MOST_OPS", 2)
    sent = begin(shop, *(f"{number}" for number in range(12)))
    for half in sent[:6]:
        shop.commit(half)
    assert watching.look()
    assert [name for name, state in states().items() if state == "open"] == ["6", "7", "8"]
    assert sum(state == "committed" for state in states().values()) <= 4
    for half in sent[6:]:
        shop.commit(half)
        watching.look()
    assert sum(state == "open" for state in states().values()) == 0
    assert HalfMessage.objects.count() <= 4
    assert "11" in states()
    assert OpMessage.objects.count() <= 2


def test_what_was_decided_long_ago_goes(watching: Watching, shop: TransactionProducer, monkeypatch: Any) -> None:
    paid, _ = begin(shop, "paid", "left")
    shop.commit(paid)
    watching.look()
    assert states() == {"paid": "committed", "left": "open"}
    monkeypatch.setattr(mirroring, "KEPT_MS", -60_000)
    watching.follower.forget()
    watching.look()
    assert states() == {"left": "open"}
    assert OpMessage.objects.count() == 0


def test_a_new_life_of_the_mirror_has_the_same_rows(
    watching: Watching, shop: TransactionProducer, mirror: Mirror
) -> None:
    (paid, _) = begin(shop, "paid", "left")
    shop.commit(paid)
    watching.look()
    columns = [field.attname for field in HalfMessage._meta.concrete_fields if field.name not in ("id", "op")]
    before = list(HalfMessage.objects.order_by("offset").values(*columns))
    mirror.rebuild()
    assert list(HalfMessage.objects.order_by("offset").values(*columns)) == before
    assert OpMessage.objects.count() == 1


class Listless(Admin):
    """A client whose broker refuses what RocketMQ does not have."""

    asked = pulled = 0

    def transaction_status(self, *, address: str | None = None) -> TransactionStatus:
        self.asked += 1
        raise NotSupported(3, "request type 14013 not supported")

    def pull(self, *where: Any, **more: Any) -> list[Message]:
        self.pulled += 1
        return super().pull(*where, **more)


def test_a_broker_that_lists_none_is_read_by_pulling(
    watching: Watching, shop: TransactionProducer, broker: RunningBroker
) -> None:
    halves = begin(shop, "a", "b", "c")
    shop.commit(halves[0])
    now_ms = time.time_ns() // 1_000_000
    with Listless(broker.namesrv) as admin:
        follower = HalfFollower(admin, stopwatch=lambda: 0.0)
        assert not follower.look(watching.name, now_ms)
        assert follower.look(watching.name, now_ms + 1)
        assert states() == {"a": "decided", "b": "open", "c": "open"}
        decided = HalfMessage.objects.get(offset=halves[0].queue_offset)
        assert (decided.position, decided.topic, decided.group) == (halves[0].position, "orders", "shop")
        assert decided.op is not None
        assert decided.op.half_offsets == [halves[0].queue_offset]
        pulled = admin.pulled
        assert not follower.look(watching.name, now_ms + 2 * mirroring.INTERVAL_MS)
        assert (admin.asked, admin.pulled) == (1, pulled)
        shop.rollback(halves[1])
        assert follower.look(watching.name, now_ms + 4 * mirroring.INTERVAL_MS)
        assert states() == {"a": "decided", "b": "decided", "c": "open"}
        # what was decided long ago goes, what is open stays
        assert follower.look(watching.name, now_ms + mirroring.KEPT_MS + 60_000) is False
        begin(shop, "d")
        assert follower.look(watching.name, now_ms + 2 * mirroring.KEPT_MS)
        assert states() == {"c": "open", "d": "open"}
        assert not OpMessage.objects.exists()


def test_a_look_that_took_long_is_not_repeated_soon(
    watching: Watching, shop: TransactionProducer, admin: Admin
) -> None:
    """Beside thousands of transactions a second it took a seventh of a core, for rows that lived for two seconds."""
    processor_s = iter((0.0, 0.1, 1.0, 1.03, 2.0, 62.0, 63.0, 63.0))
    follower = HalfFollower(admin, stopwatch=lambda: next(processor_s))

    def looks_at(now_ms: int) -> bool:
        begin(shop, str(now_ms))
        return follower.look(watching.name, now_ms)

    assert looks_at(0)
    assert [looks_at(4_999), looks_at(5_000)] == [False, True]
    assert [looks_at(6_999), looks_at(7_000)] == [False, True]
    assert [looks_at(16_999), looks_at(17_000)] == [False, True]


def test_a_broker_that_is_away_is_asked_again(watching: Watching, shop: TransactionProducer) -> None:
    begin(shop, "a")
    real = watching.follower._source

    class Away:
        def transaction_status(self) -> None:
            raise BrokerUnreachable("127.0.0.1:1", "away")

    away: Any = Away()
    watching.follower._source = away
    assert not watching.look()
    watching.follower._source = real
    assert watching.look()
    assert states() == {"a": "open"}


def test_names_that_a_database_does_not_take_are_cut(watching: Watching, shop: TransactionProducer) -> None:
    row = HalfMessage(
        broker_id="broker-a", offset=1, position=1 << 70, queue_id=-1 << 40, group="a\0b" * 200,
        keys=["k\0", "\ud800", "k" * 70_000], tag="t" * 70_000,
    )  # fmt: skip
    half = next(iter(fit_rows("halves", [row], ("broker", "offset"), flaws := [])))
    assert half.group == ("a\ufffdb" * 200)[:255]
    assert (half.position, half.queue_id) == (None, None)
    assert half.keys == ["k\ufffd", "\ufffd", "k" * 65_536]
    assert len(half.tag) == 65_536
    assert flaws[0].name == "1"
    assert not fit_rows("halves", [HalfMessage(broker_id="broker-a", offset=1 << 63)], ("broker", "offset"), flaws)


def test_rows_are_only_looked_at(watching: Watching, shop: TransactionProducer) -> None:
    begin(shop, "a")
    watching.look()
    row = HalfMessage.objects.get()
    for write in (row.save, row.delete, lambda: HalfMessage.objects.update(state="committed")):
        with pytest.raises(MirrorReadOnlyError):
            write()


@pytest.fixture
def operator(transactional_db: None, broker: RunningBroker, settings: Any) -> Iterator[Client]:
    settings.ESCAPEMENT_NAMESRV = broker.namesrv
    browser = Client()
    browser.force_login(get_user_model().objects.create_superuser("operator", password="a long secret"))
    yield browser
    hang_up()


#: one that is asked about is due until its producer was asked
UNDECIDED = {"open", "due"}
ACTIONS = (
    ("commit", {"committed"}), ("roll_back", {"rolled back"}), ("check_now", UNDECIDED), ("resume", UNDECIDED),
)  # fmt: skip


@pytest.mark.parametrize(("action", "expected"), ACTIONS)
def test_the_admin_leads_to_a_preview_and_that_to_the_broker(
    watching: Watching, shop: TransactionProducer, operator: Client, action: str, expected: set[str]
) -> None:
    begin(shop, "chosen", "other")
    watching.look()
    page = operator.get("/admin/broker/halfmessage/")
    assert page.status_code == 200
    assert "chosen" in page.content.decode()
    chosen = HalfMessage.objects.get(offset=0)
    answer = operator.post("/admin/broker/halfmessage/", {"action": action, "_selected_action": [chosen.pk]})
    assert answer.status_code == 302
    assert states() == {"chosen": "open", "other": "open"}
    address = answer.headers["Location"]
    assert operator.get(address).status_code == 200
    assert operator.post(address + "confirm/", {"reason": "from the admin"}).status_code == 303
    watching.follower.forget()
    watching.look()
    assert states()["chosen"] in expected
    assert states()["other"] == "open"
    assert Operation.objects.get().reason == "from the admin"


def test_the_admin_offers_nothing_to_who_may_only_look(
    watching: Watching, shop: TransactionProducer, operator: Client
) -> None:
    begin(shop, "a")
    watching.look()
    viewer = get_user_model().objects.create_user("viewer", password="a long secret", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_halfmessage"))
    browser = Client()
    browser.force_login(viewer)
    page = browser.get("/admin/broker/halfmessage/").content.decode()
    assert 'value="commit"' not in page
    row = HalfMessage.objects.get()
    browser.post("/admin/broker/halfmessage/", {"action": "commit", "_selected_action": [row.pk]})
    watching.follower.forget()
    watching.look()
    assert states() == {"a": "open"}
    assert browser.get("/admin/broker/opmessage/").status_code == 403
    assert operator.get("/admin/broker/opmessage/").status_code == 200
