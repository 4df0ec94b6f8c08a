"""One broker, database and Redis with something on every page, hostile names included, and the pages' addresses."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlencode

from django.contrib.auth import get_user_model
from django.utils import timezone

from console import snapshots
from console.features.alerts.models import Alert, AlertRule
from console.features.overview.finding_marks import place_of
from console.features.overview.pages import read_overview
from console.operations import workflow
from console.operations.actor import Actor
from console.operations.models import Operation
from console.site.mirrored import cluster
from console.ui.saved_views import address_of, keep
from tests.browser import test_dashboards, test_timers, test_transactions
from tests.console.dead_letters.test_dead_letters import bury
from tests.console.messages.proto_shop import ORDER, SHOP, base64_of
from tests.console.stage import HOSTILE, Stage


def fill(stage: Stage) -> dict[str, str]:
    """Something for every page; a page's name -> its address."""
    stage.fill()
    stage.consume()
    test_timers.fill(stage)
    test_transactions.fill(stage)
    test_dashboards.fill()
    for number in range(5):
        bury(stage, f"order-{number}", tag="paid")
    stage.mirror.run_once()
    actor = Actor.of(get_user_model().objects.get(username="operator"))
    draft = workflow.draft("dead_letters.send_as_new", {"group": "billing", "filter": {}, "is_all": True}, actor)
    offsets = {"group": "billing", "topic": "orders"}
    reset = workflow.draft("groups.reset_offsets", {**offsets, "to": "first"}, actor)
    done = workflow.start("groups.reset_offsets", {**offsets, "to": "last"}, actor, reason="to show")
    timer = stage.admin.timers(test_timers.now_ms(), test_timers.now_ms() + test_timers.HOUR_MS).items[0]
    record = stage.producer.send("orders", '{"order": 1}', keys=["shown"], properties={"note": "<b>"})
    moved = workflow.draft("timers.reschedule", {"filter": {"topic": "orders"}, "shift_ms": 5_400_000}, actor)
    last = stage.admin.timers(test_timers.now_ms(), 2**62).items[-1]
    cancelled = workflow.start("timers.cancel", {"targets": [{"position": last.position}]}, actor, reason="to show")
    back = workflow.start("timers.take_back", {"operation": str(cancelled.pk)}, actor, reason="to show")
    waits = waiting(actor)
    committed = workflow.draft("transactions.commit", {"filter": {}, "is_all": True}, actor)
    changed = workflow.draft("topics.change", {"name": "orders", "settings": {"read_queues": 1}}, actor)
    deleted = workflow.draft("groups.delete", {"name": "billing"}, actor)
    alerts = alert_rules(actor)
    snapshots.take()
    save_views()
    half, parked, decided = (stage.admin.transactions(state).items[0] for state in ("open", "parked", "decided"))
    return {
        "overview": "/", **put_off(actor), "due": "/due/?window=1d", "schedule": "/schedule/", "lane": "/schedule/17/",
        "empty lane": "/schedule/3/", "timers": "/timers/", "a zoom": "/timers/?zoom=1m",
        "list of timers": "/timers/list/", "a timer": f"/timers/{timer.position}/",
        "transactions": "/transactions/", "open": "/transactions/list/?state=open",
        "decided": "/transactions/list/?state=decided", "parked": "/transactions/list/?state=parked",
        "a transaction": f"/transactions/{half.position}/", "one parked": f"/transactions/{parked.position}/",
        "one decided": f"/transactions/{decided.position}/", "delayed queues": "/redisson/",
        "a delayed queue": "/redisson/queue/?name=orders",
        "topics": "/topics/", "a topic": "/topics/orders/", "a queue": "/topics/orders/0/",
        "a tail": "/topics/orders/tail/", "a message to send": "/topics/orders/send/", **described(actor),
        "clients": "/clients/", "a client": "/clients/one/?" + urlencode({"id": stage.admin.producers()[0].client_id}),
        "lanes then": "/schedule/?as_of=%2B1h", "timers then": "/timers/?as_of=%2B1h",
        "groups then": "/groups/?as_of=%2B1h", "before all snapshots": "/groups/?as_of=-10d",
        "two moments": "/compare/?from=%2B1h&to=",
        "groups": "/groups/", "a group": "/groups/billing/", "dead letters": "/dead-letters/",
        "dead letters of a group": "/dead-letters/of/billing/",
        "search": "/messages/", "found": "/messages/?topic=orders&q=late-1",
        "a message": f"/messages/{record.offset_message_id}/",
        **{name: f"/dashboards/{name}/" for name in test_dashboards.NAMES},
        "alerts": "/alerts/", **alerts, "audit": "/audit/", "places": "/find/?q=o",
        "operations": "/operations/", "a draft": f"/operations/{draft.pk}/",
        "a draft for timers": f"/operations/{moved.pk}/", "a draft for halves": f"/operations/{committed.pk}/",
        "a draft for a topic": f"/operations/{changed.pk}/", "a deletion": f"/operations/{deleted.pk}/",
        "a reset": f"/operations/{reset.pk}/", "a cancel": f"/operations/{cancelled.pk}/",
        "taken back": f"/operations/{back.pk}/", "a second person": f"/operations/{waits.pk}/",
        "a done operation": f"/operations/{done.pk}/", "saved views": "/views/", "components": "/design/",
        "a saved view": "/groups/?search=bil", "broker": "/broker/", "own settings": "/account/settings/",
        "a draft for a broker": f"/operations/{configured(actor).pk}/", "the API": "/api/docs/",
        "nothing there": "/topics/there-is-none/", "a call": "/api/docs/timers_cancel_many/",
    }  # fmt: skip


def alert_rules(actor: Actor) -> dict[str, str]:
    """Rules with what they raised and a silence; the pages that lead to another."""
    late = AlertRule.objects.create(what="backlog", subject="bil*", limit=0, for_s=60, name="billing is late")
    AlertRule.objects.create(
        what="half-age", subject=HOSTILE[2][:255], limit=600, is_on=False, emails="anna@example.org"
    )
    now = timezone.now()
    for state, ended_at in (("firing", None), ("ended", now)):
        Alert.objects.create(rule=late, subject="billing", value=5, highest=9, state=state, since=now, raised_at=now,
                             ended_at=ended_at, told_before="mail to 1")  # fmt: skip
    until_ms = round(now.timestamp() * 1000) + 3_600_000
    quiet = workflow.draft("alerts.silence", {"rule": late.pk, "subject": "billing", "until_ms": until_ms}, actor)
    workflow.confirm(quiet.pk, actor, reason="to show")
    changed = workflow.draft("alerts.change", {"rule": late.pk, "settings": {"limit": 10}}, actor)
    deleted = workflow.draft("alerts.delete", {"rule": late.pk}, actor)
    return {
        "a new alert rule": "/alerts/rules/new/", "a suggested alert rule": "/alerts/rules/new/?suggested=disk-fills",
        "an alert rule": f"/alerts/rules/{late.pk}/",
        "a draft for an alert rule": f"/operations/{changed.pk}/", "a silence": f"/operations/{quiet.pk}/",
        "a deletion of an alert rule": f"/operations/{deleted.pk}/",
    }  # fmt: skip


def configured(actor: Actor) -> Operation:
    """A change of the broker's settings that is looked at."""
    return workflow.draft("brokers.configure", {"settings": {"fileReservedTime": "48"}}, actor)


def described(actor: Actor) -> dict[str, str]:
    """The pages of a descriptor, and of another one that is looked at."""
    given = {"topic": "orders", "set": base64_of(SHOP)}
    workflow.start("descriptors.change", {**given, "type": ORDER}, actor, reason="to show")
    draft = workflow.draft("descriptors.change", given, actor)
    return {"a descriptor": "/topics/orders/descriptor/", "a draft for a descriptor": f"/operations/{draft.pk}/"}


def put_off(actor: Actor) -> dict[str, str]:
    """The pages of a finding that counts and of one that is ignored, which the first page lists folded."""
    found = read_overview().findings
    asked = {"kind": found[0].code.value.name, "subject": found[0].key, "place": place_of(found[0], cluster())}
    workflow.start("findings.snooze", {**asked, "until_ms": None}, actor, reason="to show")
    return {"a finding": found[-1].own_page, "an ignored finding": found[0].own_page}


def waiting(actor: Actor) -> Operation:
    """An operation of somebody else that waits for a second person."""
    row = workflow.draft("timers.pause", {}, actor)
    Operation.objects.filter(pk=row.pk).update(
        state=Operation.State.WAITING, waits_until=timezone.now() + timedelta(hours=1), reason="to show", actor="anna",
        created_by=None,
    )  # fmt: skip
    return row


def save_views() -> None:
    """Views with hostile names, one with a long filter."""
    owner = get_user_model().objects.get(username="operator")
    for number, address in enumerate(("/groups/?search=bil", "/topics/?kind=normal", "/groups/?search=" + "x" * 500)):
        found = address_of(address)
        assert found is not None
        keep(owner, found, f"{number} {HOSTILE[number]}"[:60], is_shared=True)
