"""Topics and consumer groups created, changed and deleted.

    {"name": "orders", "settings": {"write_queues": 8}}                                     make or change
    {"name": "orders", "settings": {"write_queues": 4}, "expected": {"write_queues": 8}}    only if it is so now: undo
    {"name": "orders"}                                                                      delete
    {"name": "orders", "pending": "cancel"}          delete a topic for which something waits; or "keep": it comes out

One item is the topic or group; it keeps what was before and what is after, so that a change can be taken back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar
from urllib.parse import quote

from django.db.models import Q
from django.http import QueryDict
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from broker.client import Admin, BrokerRefused, ClientError, InvalidArgument, NotSupported
from broker.client.admin import TopicWaiting
from broker.client.names import check_group, check_writable_topic
from broker.mirror.models import ConsumerGroup, ConsumerOffset, Queue
from broker.rocketmq.topics import DLQ_PREFIX, POP_SEPARATORS, RETRY_PREFIX
from console.operations import setting_fields
from console.operations.actor import CHANGE_SETTINGS, UNBOUNDED, Scope, named
from console.operations.errors import InvalidParameter, NotPossible, OperationError, PendingUndecided
from console.operations.kind import (
    REASON,
    Call,
    ChangesPreview,
    Form,
    ItemNow,
    ItemResult,
    Kind,
    Outcome,
    Preview,
    Target,
    Undo,
)
from console.operations.models import Operation, OperationItem
from console.operations.registry import register
from console.operations.setting_fields import GROUP, TOPIC, Fields, Setting
from console.site import broker as site_broker
from console.site.clock import now_ms
from console.site.mirrored import mirrored

#: what can become of that which waits for a topic
PENDING = ("cancel", "keep")
#: codes of what a preview misses: there may be more that waits than was counted; the broker does not tell all of it
AT_LEAST, NOT_TOLD = "waiting", "waiting_not_told"
#: topics are asked about for so long; the first one is, however long that takes
_PATIENCE_S = 3.0

OfSettings = TypeVar("OfSettings", bound=Preview)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsPreview(ChangesPreview):
    """Settings before and after."""

    weights: ClassVar[tuple[str, ...]] = ("unread",)

    #: messages in queues that nobody would read any more
    unread: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionPreview(Preview):
    """The loss that comes with deleting a topic or consumer group, and what waits for it."""

    weights: ClassVar[tuple[str, ...]] = ("lost_messages", "waiting_count")

    lost_messages: int | None = None
    #: groups that read the topic, or topics that the group reads
    lost_readers: int | None = None
    #: what waits for a topic (timers, delayed, halves, parked_halves; None: not told); of a group which of its tries
    #: wait: they are among the messages that are lost
    waiting: dict[str, int | None] = field(default_factory=dict)
    #: how much of that is known; None: nothing, and of a group
    waiting_count: int | None = None
    #: connected consumers of a group: their next heartbeat creates it again
    members: int | None = None

    @property
    def has_waiting(self) -> bool:
        """Tell whether something waits, as far as that is known."""
        return any(self.waiting.values())


class _Settings(Kind[OfSettings]):
    """An operation on the settings of a topic or of a consumer group."""

    permission = CHANGE_SETTINGS
    is_topic: ClassVar[bool]
    #: True: there must be none yet; False: there must be one
    is_new: ClassVar[bool] = False

    @property
    def known(self) -> tuple[Setting, ...]:
        """The settings that topics, or groups, have."""
        return TOPIC if self.is_topic else GROUP

    def name_of(self, parameters: Mapping[str, Any]) -> str:
        """Return a name that the broker takes; raises InvalidParameter."""
        name = parameters.get("name")
        try:
            (check_writable_topic if self.is_topic else check_group)(name if isinstance(name, str) else "")
        except InvalidArgument as error:
            raise InvalidParameter("name", str(error)) from None
        return str(name)

    def found(self, name: str) -> Fields | None:
        """Return it as the broker keeps it now; None: there is none."""
        admin = site_broker.admin()
        return admin.topic_settings(name) if self.is_topic else admin.group_settings(name)

    def existing(self, name: str) -> Fields:
        """Return it as `found` does, where it has to be there, or must not; raises NotPossible."""
        found = self.found(name)
        if self.is_new and found is not None:
            raise NotPossible(f"{name} is there already; change it on its page.")
        if not self.is_new and found is None:
            raise NotPossible(f"The broker has no {name}.")
        return found or {}

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the name alone."""
        return {"name": given.get("name", "").strip()}

    def scope(self, parameters: Mapping[str, Any], preview: Mapping[str, Any] | None) -> Scope:
        """Return the topic, or the group; nothing bounds a group that is not there yet."""
        names = named(parameters.get("name"))
        if self.is_topic:
            return Scope(names)
        return UNBOUNDED if self.is_new else Scope(groups=names)

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return the name alone."""
        return str(parameters["name"])

    @property
    def path(self) -> str:
        """The path of topics, or of groups, in REST."""
        return "topics" if self.is_topic else "groups"


class _Change(_Settings[SettingsPreview]):
    """Create, or change, what is named; the rest stays as it is."""

    preview_type = SettingsPreview
    preview_template = "settings/changes_preview.html"
    has_figures = False

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the name, and the settings that differ from what the form was made of."""
        settings = {
            each.name: given[each.name]
            for each in self.known
            if each.name in given and given[each.name] != given.get(f"was_{each.name}")
        }
        return {**super().from_form(given), "settings": settings}

    def form_again(self, given: QueryDict, faults: Mapping[str, str]) -> Form | None:
        """Return the form for a new one, or of the one that is there."""
        name, sent = given.get("name", "").strip(), {each: str(given[each]) for each in given}
        if self.is_new:
            empty = setting_fields.new_topic_form() if self.is_topic else setting_fields.new_group_form()
            return Form("settings/create.html", {"form": setting_fields.as_sent(empty, sent, faults)})
        there = setting_fields.topic_form(name) if self.is_topic else setting_fields.group_form(name)
        context = {"form": setting_fields.as_sent(there, sent, faults), "data": {"now_ms": now_ms()}}
        return Form("settings/change.html", context)

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that creates or changes it."""
        body = {part: parameters[part] for part in ("settings", "expected") if part in parameters}
        if self.is_new:
            return "POST", self.path, {"name": parameters["name"], **body, **REASON}
        return "PATCH", f"{self.path}/{quote(parameters['name'], safe='')}/settings", {**body, **REASON}

    def undo_of(self, row: Operation) -> Undo | None:
        """Return that it can be put back, if it changed something."""
        return Undo(bool(row.results.get("changed"))) if self.undone_by else None

    def undo_parameters(self, row: Operation, given: QueryDict) -> dict[str, Any]:
        """Return the settings of before, to be set if nobody changed them since; raises NotPossible."""
        return undo_parameters(list(row.items.filter(outcome="changed").values_list("label", flat=True)))

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return name and settings, and what is expected to be there."""
        made: dict[str, Any] = {
            "name": self.name_of(parameters),
            "settings": setting_fields.checked(self.known, parameters.get("settings", {})),
        }
        if parameters.get("expected") is not None:
            made["expected"] = setting_fields.checked(self.known, parameters["expected"])
        return made

    def preview(self, parameters: Mapping[str, Any]) -> SettingsPreview:
        """Compare each setting before and after; raises NotPossible when it is not as expected."""
        name = parameters["name"]
        now = setting_fields.shown(self.known, self.existing(name))
        _expect(parameters, now)
        wanted = {each.name: parameters["settings"].get(each.name, now[each.name]) for each in self.known}
        changes = [
            [each, None if self.is_new else now[each], value]
            for each, value in wanted.items()
            if self.is_new or value != now[each]
        ]
        unread = _unread(name, wanted) if self.is_topic and not self.is_new else 0
        return SettingsPreview(at_ms=now_ms(), count=1 if changes else 0, changes=changes, unread=unread)

    def targets(self, parameters: Mapping[str, Any], preview: SettingsPreview) -> Sequence[Target]:
        """Return the topic or group, with what was before."""
        now = setting_fields.shown(self.known, self.existing(parameters["name"]))
        after = {**now, **parameters["settings"]}
        before = {name: now[name] for name in parameters["settings"]} if not self.is_new else None
        after = {name: after[name] for name in parameters["settings"]}
        return [Target({"name": parameters["name"]}, {"name": parameters["name"], "before": before, "after": after})]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Look once more, then send one request to each broker."""
        name, admin = parameters["name"], site_broker.admin()

        def change() -> None:
            found = self.existing(name)
            _expect(parameters, setting_fields.shown(self.known, found))
            fields = setting_fields.written(self.known, found, parameters["settings"])
            (admin.set_topic if self.is_topic else admin.set_group)(name, fields)

        return _result_of(change, "made" if self.is_new else "changed")


def held(broker: str, topics: Sequence[str]) -> int:
    """Return how many messages stand in the topics' queues."""
    rows = Queue.objects.filter(broker=broker, topic__in=topics).values_list("min_offset", "max_offset")
    return sum((high or 0) - (low or 0) for low, high in rows)


def counts(found: TopicWaiting) -> dict[str, int | None]:
    """Return what waits, kind by kind, as a preview and a result have it."""
    return {
        "timers": found.timers, "delayed": found.delayed, "halves": found.halves, "parked_halves": found.parked_halves,
    }  # fmt: skip


def waiting_for(topics: Sequence[str]) -> tuple[dict[str, int | None], list[str]]:
    """Return what waits for the topics, and codes of what is not known; of Apache RocketMQ their timers alone."""
    admin = site_broker.admin()
    try:
        found = _told(admin, topics)
        return counts(found), [] if found.complete else [AT_LEAST]
    except NotSupported:
        pass
    nothing = dict.fromkeys(counts(TopicWaiting()))
    try:
        timers = sum(each.count for each in admin.timer_metrics() if each.topic in topics)
    except BrokerRefused:
        # its timers are switched off, or it is older than they are
        return nothing, [NOT_TOLD]
    return nothing | {"timers": timers}, [NOT_TOLD]


def topics_of_tries(broker: str, group: str) -> list[str]:
    """Return where a group's tries are: its own topic first, then those that there are of the topics that it pops.

    %RETRY%a_b_c may be of a group a that pops b_c, of a_b that pops c, or the own one of a_b_c. Who has an offset in
    it reads it; without one it is the group's that reads such a topic, if that can be said of no other group.
    """
    own = RETRY_PREFIX + group
    begins = Q(topic__startswith=f"{own}{POP_SEPARATORS[0]}") | Q(topic__startswith=f"{own}{POP_SEPARATORS[1]}")
    there = Queue.objects.filter(begins, broker=broker).values_list("topic", flat=True).distinct().order_by("topic")
    read = set(ConsumerOffset.objects.filter(broker=broker, group=group).values_list("topic", flat=True))
    popped = [
        name
        for name in there
        if name in read or (name[len(own) + 1 :] in read and not _may_be_anothers(broker, group, name))
    ]
    return [own, *popped]


def _may_be_anothers(broker: str, group: str, topic: str) -> bool:
    rest = topic.removeprefix(RETRY_PREFIX)
    readings = Q(topic=topic) | Q(group=rest)
    for at, letter in enumerate(rest):
        if letter in POP_SEPARATORS:
            readings |= Q(group=rest[:at], topic=rest[at + 1 :])
    others = ConsumerOffset.objects.filter(readings, broker=broker).exclude(group=group)
    return others.exists() or ConsumerGroup.objects.filter(broker=broker, name=rest).exists()


def _told(admin: Admin, topics: Sequence[str]) -> TopicWaiting:
    """Ask for one topic after another; not complete where time was over before the last. Raises NotSupported."""
    until_s, found = time.monotonic() + _PATIENCE_S, TopicWaiting()
    for number, topic in enumerate(topics):
        if number and time.monotonic() > until_s:
            return found + TopicWaiting(complete=False)
        found += admin.topic_waiting(topic)
    return found


class _Delete(_Settings[DeletionPreview]):
    """Delete a topic or a consumer group; nothing of it stays."""

    is_final = True
    preview_type = DeletionPreview

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that deletes it."""
        pending = f"&pending={parameters['pending']}" if parameters.get("pending") else ""
        return "DELETE", f"{self.path}/{quote(parameters['name'], safe='')}?reason=...{pending}", None

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the name alone."""
        return {"name": self.name_of(parameters)}

    def typed_word(self, parameters: Mapping[str, Any]) -> str:
        """Return the name of what is deleted."""
        return str(parameters["name"])

    def targets(self, parameters: Mapping[str, Any], preview: DeletionPreview) -> Sequence[Target]:
        """Return the one, with its settings."""
        found = self.existing(parameters["name"])
        before = setting_fields.shown(self.known, found)
        return [Target({"name": parameters["name"]}, {"name": parameters["name"], "before": before})]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Send one request to each broker."""
        admin = site_broker.admin()
        delete = admin.delete_topic if self.is_topic else admin.delete_group
        return _result_of(lambda: delete(parameters["name"]), "deleted")


@register
class ChangeTopic(_Change):
    """Give a topic other queues, another permission, type or order."""

    name, page, is_topic = "topics.change", "topics", True
    title, verb = _("Change a topic"), _("Change it")
    effect = _("Clients learn of it within half a minute. It can be put back unless somebody else changes it again.")
    outcomes = {"changed": Outcome(_("changed"))}
    undone_by, undo_verb = name, _("Put it back as it was…")


@register
class CreateTopic(_Change):
    """Create a topic that is not there yet."""

    name, page, is_topic, is_new = "topics.create", "topics", True, True
    title, verb = _("Create a topic"), _("Create it")
    effect = _("Producers and consumers can use it at once.")
    outcomes = {"made": Outcome(_("made"))}


@register
class DeleteTopic(_Delete):
    """The deletion of a topic and its messages. What waits for it is cancelled, or kept and creates it anew."""

    name, page, is_topic = "topics.delete", "topics", True
    title, verb = _("Delete a topic"), _("Delete it")
    effect = _("Its messages can no longer be read. This cannot be taken back.")
    outcomes = {"deleted": Outcome(_("deleted"))}
    preview_template = "topics/deletion_preview.html"
    choice_template, choices = "topics/deletion_choice.html", ("pending",)

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the name, and what is to become of that which waits, where that is said."""
        made, pending = super().checked(parameters), parameters.get("pending")
        if pending in (None, ""):
            return made
        if pending not in PENDING:
            raise InvalidParameter("pending", f"pending is one of {', '.join(PENDING)}.")
        return {**made, "pending": pending}

    def preview(self, parameters: Mapping[str, Any]) -> DeletionPreview:
        """Count what is lost, and what waits for it."""
        name, broker = parameters["name"], mirrored().name
        self.existing(name)
        waiting, missing = waiting_for([name])
        known = [count for count in waiting.values() if count is not None]
        readers = ConsumerOffset.objects.filter(broker=broker, topic=name).values("group").distinct().count()
        return DeletionPreview(
            at_ms=now_ms(),
            count=1,
            lost_messages=held(broker, [name]),
            lost_readers=readers,
            waiting=waiting,
            waiting_count=sum(known) if known else None,
            missing=missing,
        )

    def undecided(self, parameters: Mapping[str, Any], preview: DeletionPreview) -> OperationError | None:
        """Return PendingUndecided where something waits, InvalidParameter for what this broker cannot do."""
        pending = parameters.get("pending")
        if pending is None and (preview.waiting_count or AT_LEAST in preview.missing):
            return PendingUndecided(parameters["name"], preview.waiting, is_whole=not preview.missing)
        if pending == "cancel" and NOT_TOLD in preview.missing:
            return InvalidParameter(
                "pending",
                "This broker cannot cancel what waits for a topic: cancel its timers by themselves, or keep it.",
            )
        return None

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Send one request to each broker; the result says what waited."""
        told: dict[str, Any] = {}

        def delete() -> None:
            found = site_broker.admin().delete_topic(parameters["name"], parameters.get("pending"))
            if "pending" in parameters:
                told.update(pending=parameters["pending"], **(counts(found) if found is not None else {}))

        (result,) = _result_of(delete, "deleted")
        return [ItemResult(result.outcome, {**told, **result.result})]

    def told(self, row: Operation) -> dict[str, Any] | None:
        """Return what waited for the topic, and what became of that."""
        item = row.items.exclude(outcome="").first()
        return dict(item.result) if item is not None and item.result else None

    def item_now(self, item: OperationItem) -> ItemNow | None:
        """Return what became of that which waited for the topic."""
        if not item.result.get("pending"):
            return super().item_now(item)
        waiting = waiting_words(item.result) or gettext("nothing that was counted")
        is_cancelled = item.result["pending"] == "cancel"
        text = gettext("cancelled: %(waiting)s") if is_cancelled else gettext("kept: %(waiting)s")
        return ItemNow(text=text % {"waiting": waiting})


@register
class ChangeGroup(_Change):
    """Change whether a group may consume, and how often it gets a message again."""

    name, page, is_topic = "groups.change", "groups", False
    title, verb = _("Change a group"), _("Change it")
    effect = _("It takes effect at once. It can be put back unless somebody else changes it again.")
    outcomes = {"changed": Outcome(_("changed"))}
    undone_by, undo_verb = name, _("Put it back as it was…")


@register
class CreateGroup(_Change):
    """Create a consumer group that is not there yet."""

    name, page, is_topic, is_new = "groups.create", "groups", False, True
    title, verb = _("Create a consumer group"), _("Create it")
    effect = _("Consumers can join it at once.")
    outcomes = {"made": Outcome(_("made"))}


@register
class DeleteGroup(_Delete):
    """The operation that deletes a group and its offsets; its tries and dead letters stay, and nobody reads them."""

    name, page, is_topic = "groups.delete", "groups", False
    title, verb = _("Delete a group"), _("Delete it")
    effect = _("Its offsets are deleted. This cannot be taken back.")
    outcomes = {"deleted": Outcome(_("deleted"))}
    preview_template = "groups/deletion_preview.html"

    def preview(self, parameters: Mapping[str, Any]) -> DeletionPreview:
        """Count what is lost: dead letters and tries, with those that wait for their moment."""
        name, broker = parameters["name"], mirrored().name
        self.existing(name)
        tries = topics_of_tries(broker, name)
        waiting, missing = waiting_for(tries)
        topics = ConsumerOffset.objects.filter(broker=broker, group=name).values("topic").distinct().count()
        members = ConsumerGroup.objects.filter(broker=broker, name=name).values_list("members", flat=True).first()
        # no count of what waits: its moments come while a second person thinks about it, and no less is lost
        lost = held(broker, [*tries, DLQ_PREFIX + name]) + sum(count or 0 for count in waiting.values())
        return DeletionPreview(
            at_ms=now_ms(),
            count=1,
            lost_messages=lost,
            lost_readers=topics,
            members=members,
            waiting=waiting,
            missing=missing,
        )


def undo_parameters(labels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what takes a change back, if nobody changed it since; raises NotPossible."""
    if len(labels) != 1 or not labels[0].get("before") or not labels[0].get("after"):
        raise NotPossible("It changed nothing that was there before.")
    label = labels[0]
    return {"name": label["name"], "settings": label["before"], "expected": label["after"]}


def _result_of(change: Callable[[], object], done: str) -> list[ItemResult]:
    """Make the change and return what became of the one item: `done`, refused, or unknown where no answer came."""
    try:
        change()
    except (NotPossible, BrokerRefused, InvalidArgument) as error:
        return [ItemResult("refused", {"error": str(error)})]
    except ClientError as error:
        return [ItemResult("unknown", {"error": str(error)})]
    return [ItemResult(done)]


def _expect(parameters: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name, value in parameters.get("expected", {}).items():
        if now[name] != value:
            raise NotPossible(f"{name} is {now[name]!r} now, not {value!r}: somebody has changed it since.")


def _unread(topic: str, wanted: Mapping[str, Any]) -> int:
    """Return how many messages stand in queues that nobody will be given any more."""
    queues = site_broker.admin().topic_stats(topic).queues
    return sum(each.max_offset - each.min_offset for each in queues if each.queue.queue_id >= wanted["read_queues"])


def waiting_words(counts: Mapping[str, Any]) -> str:
    """Return what waits for a topic, kind by kind; what is not told is not named, "" where that is nothing."""
    said = []
    if timers := counts.get("timers"):
        said.append(ngettext("%(count)s timer", "%(count)s timers", timers) % {"count": f"{timers:,}"})
    if delayed := counts.get("delayed"):
        words = ngettext("%(count)s on a delay level", "%(count)s on delay levels", delayed)
        said.append(words % {"count": f"{delayed:,}"})
    if halves := (counts.get("halves") or 0) + (counts.get("parked_halves") or 0):
        words = ngettext("%(count)s undecided half", "%(count)s undecided halves", halves)
        said.append(words % {"count": f"{halves:,}"})
    return ", ".join(said)
