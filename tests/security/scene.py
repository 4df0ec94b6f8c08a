"""Two teams on one broker, `orders` and `payroll`, and everybody who may come to a page: what each address names of
each of them, and what somebody was answered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth import get_user_model
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from broker.client import Admin, Consumer, Producer
from broker.client import credentials as client_credentials
from console import snapshots
from console.features.alerts.models import Alert, AlertRule, Silence
from console.operations import workflow
from console.operations.actor import Actor
from console.operations.models import AuditEntry, Operation
from console.security.gate import ADMINISTRATOR
from console.security.models import ApiToken
from console.ui.saved_views import SavedView
from tests.console.dashboards.test_dashboards import NOON_MS, computed
from tests.console.kept import hang_up
from tests.console.people import browser_of, person
from tests.console.security.test_limited import drafts_of, ids_of, limited_person
from tests.console.stage import Stage
from tests.mirror.running import running_broker
from tests.security.doors import pages
from tests.security.table import LIMITED
from tests.server.access.clients import ACCESS, ROOT

OWN, OTHER = "orders", "payroll"
GROUPS = {OWN: "billing", OTHER: "wages"}
#: of nothing that is there
NUMBER = "3f8b5b1e-5b1e-4b1e-8b1e-5b1e5b1e5b1e"
#: words that stand in nothing but what is the other team's
FOREIGN = (OTHER, GROUPS[OTHER])


@dataclass(frozen=True, slots=True)
class Team:
    """What addresses name of a team: by its own names, numbers and ids."""

    topic: str
    parts: Mapping[str, Any]

    @property
    def group(self) -> str:
        """Its consumer group."""
        return str(self.parts["group.name"])

    def address(self, name: str, pattern: str) -> str:
        """The address of a page about what is this team's."""
        names = re.findall(r"<\w+:(\w+)>", pattern)
        given = {each: self.parts.get(f"{name}.{each}", self.parts.get(each)) for each in names}
        asked = self.parts.get(f"{name}?", {})
        return reverse(name, kwargs=given) + (f"?{urlencode(asked)}" if asked else "")


@contextmanager
def guarded_stage(root: Path, settings: Any) -> Iterator[Stage]:
    """As `staged`, of a broker with access control: whatever names nobody signs as the broker's own user."""
    with running_broker(root, access=ACCESS) as broker:
        settings.ESCAPEMENT_NAMESRV, settings.ACCESS_KEY = broker.namesrv, ROOT[0]
        client_credentials.remember(broker.namesrv, {"access_key": ROOT[0], "secret_key": ROOT[1]})
        with Admin(broker.namesrv) as admin, Producer(group="tests", namesrv=broker.namesrv) as producer:
            made = Stage(broker, admin, producer)
            yield made
            made.close()
            hang_up()
        client_credentials.remember(broker.namesrv, {})


class People:
    """Browsers of everybody, by role; `limited`: of those who see what begins with OWN."""

    def __init__(self) -> None:
        self.users: dict[str, Any] = {"none": person("someone", role="")}
        for role in LIMITED:
            self.users[role] = person(f"a {role}", role=role)
            self.users[f"limited {role}"] = limited_person(f"a limited {role}", OWN, role=role)
        for name in (ADMINISTRATOR, f"limited {ADMINISTRATOR}"):
            self.users[name].is_staff = True
            self.users[name].save()
        self.users["superuser"] = get_user_model().objects.create_superuser("root", password="a long secret")
        self._cookies = {role: browser_of(user).cookies.output(header="") for role, user in self.users.items()}

    def browser(self, role: str, **more: Any) -> Client:
        """A browser of its own, signed in anew if somebody signed out in the last one."""
        made = Client(**more)
        made.cookies = SimpleCookie(self._cookies.get(role, ""))
        return made


def form_of(name: str, topic: str) -> dict[str, str]:
    """What is sent to an address that takes a form, about this team's; nothing where the address says it all."""
    forms: Mapping[str, dict[str, str]] = {
        "operation_draft": {"kind": "groups.reset_offsets", "group": GROUPS[topic], "topic": topic, "to": "first"},
        "find_act": {"do": f"cancel {topic}-3 because"},
        "alert_silence": {"subject": GROUPS[topic], "minutes": "30", "reason": "because"},
        "saved_view_keep": {"address": "/groups/?search=x", "name": "mine"},
        "saved_view": {"name": "mine now"},
        "message_unmask": {"reason": "because"},
        "transaction_unmask": {"reason": "because"},
        "set_language": {"language": "en"},
        "set_theme": {"theme": "dark"},
        "set_zone": {"zone": "Asia/Shanghai"},
        "set_density": {"density": "compact"},
    }
    return forms.get(name, {})


def _made(stage: Stage, actor: Actor) -> dict[str, dict[str, Any]]:
    """The same of each team beside what `filled` made: operations, alerts, views, dashboards, a snapshot."""
    timers = {row.topic: row.position for row in stage.admin.timers(0, 2**62).items}
    halves = {row.topic: row.position for row in stage.admin.transactions("open").items}
    found: dict[str, dict[str, Any]] = {}
    now = timezone.now()
    for topic, group in GROUPS.items():
        drafts = dict(drafts_of(topic, group))
        draft = workflow.draft("timers.cancel", drafts["timers.cancel"], actor)
        done = workflow.start("groups.reset_offsets", drafts["groups.reset_offsets"], actor, reason=topic)
        AuditEntry.objects.create(actor="root", what="denied", kind="timers.cancel", result={"topic": topic})
        cancelled = Operation.objects.create(
            kind="timers.cancel", state="done", actor="root", reason=topic, parameters={"filter": {"topic": topic}},
            preview={"count": 0, "topics": [[topic, 0]]},
        )  # fmt: skip
        rule = AlertRule.objects.create(what="backlog", subject=group, limit=0, name=f"{topic} is late")
        Alert.objects.create(rule=rule, subject=group, value=5, highest=9, state="firing", since=now, raised_at=now)
        Silence.objects.create(
            rule=rule, subject=group, until=now + timedelta(hours=1), reason=f"{topic} knows", actor="root"
        )
        view = SavedView.objects.create(
            owner_id=actor.user_id, page="groups", path="/groups/", query=f"search={group}", name=f"{topic} of all",
            is_shared=True,
        )  # fmt: skip
        stage.admin.create_access_user(f"user-of-{topic}", "a long secret")
        clerk = person(f"clerk-of-{topic}")
        token = ApiToken.objects.create(name=f"token of {topic}", prefix=f"{topic}xxxx"[:10], digest="d", scopes=[])
        parts = {
            "access_user.name": f"user-of-{topic}", "person_id": clerk.pk, "person": clerk.username,
            "token": token.prefix,
            "level": 16, "timer.position": timers[topic], "transaction.position": halves[topic],
            "transaction_unmask.position": halves[topic], "queue_id": 0,
            "operation_id": str(draft.pk), "operation_undo.operation_id": str(done.pk),
            "topic.name": topic, "tail.name": topic, "queue.name": topic, "group.name": group,
            "send.name": topic, "topic_descriptor.name": topic, "topic_descriptor_draft.name": topic,
            "cancelled": str(cancelled.pk), "message_id": ids_of(stage, topic)[0],
            "dead_letters_of.name": group, "dashboard.name": "flow", "dashboard_series.name": "flow",
            "dashboard_data.name": "flow", "series": "sent", "form": "json", "rule_id": rule.pk, "view_id": view.pk,
            "operation": "get_topics", "delayed_queue?": {"name": topic}, "find_key?": {"q": f"{topic}-3"},
            "finding?": {"kind": "group-without-consumer", "subject": group},
        }  # fmt: skip
        found[topic] = parts
    computed("flow", *[("sent", topic, "", "", NOON_MS + minute, 5.0, None) for topic in GROUPS for minute in range(3)])
    snapshots.take()
    return found


@contextmanager
def two_teams(stage: Stage, actor: Actor) -> Iterator[dict[str, Team]]:
    """Both teams by topic, each with a consumer that is connected."""
    made = _made(stage, actor)
    with ExitStack() as consumers:
        for topic, group in GROUPS.items():
            consumer = Consumer(group, stage.broker.namesrv)
            consumer.subscribe(topic, "*", lambda message: None)
            consumers.enter_context(consumer)
        stage.wait_for(lambda: len(stage.admin.consumers([*GROUPS.values()])) == len(GROUPS))
        stage.mirror.run_once()
        for row in stage.admin.consumers([*GROUPS.values()]):
            topic = next(each for each, group in GROUPS.items() if group == row.group)
            made[topic]["client?"] = {"id": row.client_id}
        yield {topic: Team(topic, parts) for topic, parts in made.items()}


def addresses(team: Team) -> Iterator[tuple[str, str]]:
    """Each page's name and its address for a team."""
    for name, pattern in pages().items():
        yield name, team.address(name, pattern)


@contextmanager
def undone() -> Iterator[None]:
    """Whatever is kept within is forgotten."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


#: the words for answers; "yes" is a page or a file, "led" the way to one
WORDS = {200: "yes", 204: "yes", 400: "refused", 409: "refused", 422: "refused", 403: "no", 404: "gone", 405: "never"}


def said(answer: Any) -> str:
    """What somebody was answered, in a word."""
    status, place = answer.status_code, answer.headers.get("Location", "")
    if status in (301, 302, 303):
        return "sign-in" if re.match(r"/(admin/)?login/\?next=", place) else "led"
    return WORDS.get(status, str(status))


def body_of(answer: Any) -> str:
    """All that was served."""
    told = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return str(told.decode("utf-8", "replace"))
