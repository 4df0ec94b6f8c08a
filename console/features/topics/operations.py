"""Topics and consumer groups created, changed and deleted.

    {"name": "orders", "settings": {"write_queues": 8}}                                     make or change
    {"name": "orders", "settings": {"write_queues": 4}, "expected": {"write_queues": 8}}    only if it is so now: undo
    {"name": "orders"}                                                                      delete
    {"name": "orders", "pending": "cancel"}          delete a topic for which something waits; or "keep": it comes out

One item is the topic or group; it keeps what was before and what is after, so that a change can be taken back. Where no
broker is chosen, it is done at all of them, an item a broker, and `at` takes back what was changed at each:

    {"name": "orders", "at": {"broker-a": {"settings": {"write_queues": 4}, "expected": {"write_queues": 8}}}}

A broker that does not answer is an item of which nothing is known; it can be gone on with once the broker is back.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar
from urllib.parse import quote

from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from broker.client import Admin, BrokerRefused, ClientError, InvalidArgument
from broker.client.admin import TopicWaiting
from broker.client.names import check_group, check_writable_topic
from broker.mirror.models import ConsumerGroup, ConsumerOffset, Topic
from broker.rocketmq.topics import DLQ_PREFIX
from console.features.topics.losses import (
    AT_LEAST,
    AWAY,
    MISSING,
    NOT_TOLD,
    SAME,
    THERE,
    Losses,
    counts,
    is_there_again,
    losses_of,
    topics_of_tries,
    waiting_words,
)
from console.operations import setting_fields
from console.operations.actor import CHANGE_SETTINGS, UNBOUNDED, Scope, named
from console.operations.errors import InvalidName, InvalidParameter, NotPossible, OperationError, PendingUndecided
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
from console.operations.setting_fields import DIFFERENT, GROUP, TOPIC, Fields, Setting
from console.security.topic_scope import VisibleTopics
from console.site.broker import Told, asked_of, tell_each
from console.site.chosen import chosen
from console.site.clock import now_ms
from console.site.mirrored import cluster

#: what can become of that which waits for a topic
PENDING = ("cancel", "keep")
OfSettings = TypeVar("OfSettings", bound=Preview)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsPreview(ChangesPreview):
    """Settings before and after."""

    weights: ClassVar[tuple[str, ...]] = ("unread",)

    #: messages in queues that nobody would read any more
    unread: int | None = None
    #: of several brokers those at which nothing is done, or of which nothing is known: [broker, code, error]
    apart: list[list[str]] = field(default_factory=list)


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
    #: of several brokers what each would lose: [broker, messages]
    by_broker: list[list[Any]] = field(default_factory=list)
    #: those at which nothing is done, or of which nothing is known: [broker, code, error]
    apart: list[list[str]] = field(default_factory=list)

    @property
    def has_waiting(self) -> bool:
        """Tell whether something waits, as far as that is known."""
        return any(self.waiting.values())


class _Settings(Kind[OfSettings]):
    """An operation on the settings of a topic or of a consumer group."""

    permission = CHANGE_SETTINGS
    is_repeatable = True
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
            raise InvalidName("name", error) from None
        return str(name)

    def page_of(self, item: OperationItem) -> tuple[str, str] | None:
        """Return the page of the topic or group."""
        if self.destroys:
            return None
        words, page = (gettext("Open topic"), "topic") if self.is_topic else (gettext("Open group"), "group")
        return words, reverse(page, args=[item.label.get("name", "")])

    def found(self, admin: Admin, name: str) -> Fields | None:
        """Return it as the broker keeps it now; None: there is none."""
        return admin.topic_settings(name) if self.is_topic else admin.group_settings(name)

    def existing(self, admin: Admin, name: str) -> Fields:
        """Return it as `found` does, where it has to be there, or must not; raises NotPossible."""
        found = self.found(admin, name)
        if self.is_new and found is not None:
            raise NotPossible(f"{name} already exists; use its page.")
        if not self.is_new and found is None:
            raise NotPossible(f"The broker has no {name}.")
        return found or {}

    def places(self, parameters: Mapping[str, Any]) -> tuple[list[Told[Fields | None]], list[list[str]]]:
        """Return the brokers at which something is to be done or of which nothing is known, with what they keep, and
        the others as [broker, code, ""]. Raises NotPossible where there is none, ClientError.
        """
        name = parameters["name"]
        told = tell_each(lambda admin: self.found(admin, name), brokers_of(parameters))
        wanted = [each for each in told if each.error is not None or (each.answer is None) == self.is_new]
        if not any(each.error is None for each in wanted):
            broker = "The broker has" if len(told) == 1 else "The brokers that answer have"
            raise NotPossible(f"{name} already exists; use its page." if self.is_new else f"{broker} no {name}.")
        code = THERE if self.is_new else MISSING
        return wanted, [[each.broker, code, ""] for each in told if each not in wanted]

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
            if given.get(each.name, DIFFERENT) != DIFFERENT and given[each.name] != given.get(f"was_{each.name}")
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
        body = {part: parameters[part] for part in ("settings", "expected", "at") if part in parameters}
        of = f"?broker={quote(chosen().name, safe='')}" if chosen().broker else ""
        if self.is_new:
            return "POST", f"{self.path}{of}", {"name": parameters["name"], **body, **REASON}
        return "PATCH", f"{self.path}/{quote(parameters['name'], safe='')}/settings{of}", {**body, **REASON}

    def undo_of(self, row: Operation) -> Undo | None:
        """Return that it can be put back, if it changed something."""
        return Undo(bool(row.results.get("changed"))) if self.undone_by else None

    def undo_parameters(self, row: Operation, given: QueryDict) -> dict[str, Any]:
        """Return the settings of before, to be set if nobody changed them since; raises NotPossible."""
        return undo_parameters(list(row.items.filter(outcome="changed").values_list("label", flat=True)))

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return name and settings, and what is expected to be there."""
        made: dict[str, Any] = {"name": self.name_of(parameters), **self._wanted(parameters)}
        at = parameters.get("at")
        if at is None:
            return made
        if self.is_new or not isinstance(at, Mapping) or not all(isinstance(each, Mapping) for each in at.values()):
            raise InvalidParameter("at", "at has for each broker the settings to change, and what is expected.")
        return {**made, "at": {str(broker): self._wanted(each) for broker, each in at.items()}}

    def _wanted(self, given: Mapping[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {"settings": setting_fields.checked(self.known, given.get("settings", {}))}
        if given.get("expected") is not None:
            made["expected"] = setting_fields.checked(self.known, given["expected"])
        return made

    def preview(self, parameters: Mapping[str, Any]) -> SettingsPreview:
        """Compare each setting before and after; raises NotPossible when it is not as expected."""
        places, apart = self.places(parameters)
        changes, afters = {}, {}
        for each in places:
            if each.error is not None:
                apart.append([each.broker, AWAY, str(each.error)])
                continue
            now, wanted = setting_fields.shown(self.known, each.answer or {}), at_broker(parameters, each.broker)
            _expect(wanted, now)
            after = afters[each.broker] = {**now, **wanted["settings"]}
            if own := self._changes(now, after):
                changes[each.broker] = own
            else:
                apart.append([each.broker, SAME, ""])
        return SettingsPreview(
            at_ms=now_ms(),
            count=len(changes) + sum(each.error is not None for each in places),
            changes=_together(changes),
            unread=_unread(parameters["name"], afters) if self.is_topic and not self.is_new else 0,
            apart=sorted(apart) if places[0].broker else [],
        )

    def _changes(self, now: Mapping[str, Any], after: Mapping[str, Any]) -> list[list[Any]]:
        return [
            [name, None if self.is_new else now[name], value]
            for name, value in after.items()
            if self.is_new or value != now[name]
        ]

    def targets(self, parameters: Mapping[str, Any], preview: SettingsPreview) -> Sequence[Target]:
        """Return the topic or group at each broker, with what was before; not where it is so already."""
        found, (places, _apart) = [], self.places(parameters)
        for each in places:
            now = setting_fields.shown(self.known, each.answer or {})
            wanted = at_broker(parameters, each.broker)["settings"]
            is_known = each.error is None and not self.is_new
            if each.broker and is_known and all(now[name] == wanted[name] for name in wanted):
                continue
            before = {name: now[name] for name in wanted} if is_known else None
            after = {name: {**now, **wanted}[name] for name in wanted}
            own = {"name": parameters["name"], **of_broker(each.broker)}
            found.append(Target(own, {**own, "before": before, "after": after}))
        return found

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Look once more, then send one request to each broker."""
        name = parameters["name"]

        def change(admin: Admin) -> None:
            wanted, found = at_broker(parameters, chosen().name), self.existing(admin, name)
            _expect(wanted, setting_fields.shown(self.known, found))
            fields = setting_fields.written(self.known, found, wanted["settings"])
            (admin.set_topic if self.is_topic else admin.set_group)(name, fields)

        return _results_of(change, targets, "made" if self.is_new else "changed")


def brokers_of(parameters: Mapping[str, Any]) -> list[str]:
    """Return whom the operation asks: those of `at`, or all; "" is the one there is, or that is chosen.

    Raises InvalidParameter.
    """
    here = cluster()
    for broker in parameters.get("at", ()):
        if broker not in here.names:
            raise InvalidParameter("at", f"There is no broker {broker[:60]}; there are: {', '.join(here.names)}.")
    return list(parameters["at"]) if parameters.get("at") else asked_of(here)


def at_broker(parameters: Mapping[str, Any], broker: str) -> Mapping[str, Any]:
    """Return the settings, and what is expected, of this broker."""
    found: Mapping[str, Any] = parameters.get("at", {}).get(broker, parameters)
    return found


def of_broker(name: str) -> dict[str, str]:
    """Return the field by which a target or a label says whose it is; nothing where there is one."""
    return {"broker": name} if name else {}


def _together(changes: Mapping[str, list[list[Any]]]) -> list[list[Any]]:
    """Return the changes of all brokers, each once; of several with the brokers at which it is made."""
    if list(changes) in ([], [""]):
        return changes.get("", [])
    found: dict[str, list[Any]] = {}
    for broker, own in changes.items():
        for change in own:
            found.setdefault(repr(change), [*change, []])[3].append(broker)
    return list(found.values())


class _Delete(_Settings[DeletionPreview]):
    """Delete a topic or a consumer group; nothing of it stays."""

    is_final = True
    preview_type = DeletionPreview

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that deletes it."""
        pending = f"&pending={parameters['pending']}" if parameters.get("pending") else ""
        of = f"&broker={quote(chosen().name, safe='')}" if chosen().broker else ""
        return "DELETE", f"{self.path}/{quote(parameters['name'], safe='')}?reason=...{pending}{of}", None

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the name alone."""
        return {"name": self.name_of(parameters)}

    def typed_word(self, parameters: Mapping[str, Any]) -> str:
        """Return the name of what is deleted."""
        return str(parameters["name"])

    def targets(self, parameters: Mapping[str, Any], preview: DeletionPreview) -> Sequence[Target]:
        """Return the one at each broker, with its settings."""
        found, (places, _apart) = [], self.places(parameters)
        for each in places:
            before = None if each.error is not None else setting_fields.shown(self.known, each.answer or {})
            own = {"name": parameters["name"], **of_broker(each.broker)}
            found.append(Target(own, {**own, "before": before}))
        return found

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Send one request to each broker."""
        return _results_of(lambda admin: self.delete(admin, parameters), targets, "deleted")

    @abstractmethod
    def delete(self, admin: Admin, parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Delete it at the broker; what is returned is said of the item. Raises ClientError."""

    @abstractmethod
    def topics_of(self, broker: str, name: str) -> list[str]:
        """Return the topics for which something may wait that is lost, or kept, with it."""

    def losses(self, parameters: Mapping[str, Any]) -> Losses:
        """Count what waits at each broker; raises NotPossible, ClientError."""
        one = "".join(cluster().names[:1])
        places, apart = self.places(parameters)
        apart += [[each.broker, AWAY, str(each.error)] for each in places if each.error is not None]
        there = [each.broker for each in places if each.error is None]
        topics = {broker: self.topics_of(broker or one, parameters["name"]) for broker in there}
        return losses_of(topics, sorted(apart) if places[0].broker else [])


@register
class ChangeTopic(_Change):
    """Give a topic other queues, another permission, type or order."""

    name, page, is_topic = "topics.change", "topics", True
    title, verb = _("Change a topic"), _("Apply changes")
    effect = _("Clients apply it within 30 s. This can be undone unless somebody else changes it again.")
    outcomes = {"changed": Outcome(_("changed"))}
    undone_by, undo_verb = name, _("Restore settings…")


@register
class CreateTopic(_Change):
    """Create a topic that is not there yet."""

    name, page, is_topic, is_new = "topics.create", "topics", True, True
    title, verb = _("Create a topic"), _("Create topic")
    begun_on, begun_at = "topics", "#create"
    effect = _("Producers and consumers can use it immediately.")
    outcomes = {"made": Outcome(_("created"))}

    def is_open_to(self, visible: VisibleTopics) -> bool:
        """Return whether there is a name that is seen and that no topic has."""
        return visible.is_all or bool(names_to_create(visible))


def names_to_create(visible: VisibleTopics) -> list[str]:
    """Return what the names of topics that somebody may create are, or begin with; not for who sees all."""
    there = set(Topic.objects.filter(name__in=visible.names).values_list("name", flat=True))
    return [*(f"{start}*" for start in visible.prefixes or ()), *sorted(visible.names - there)]


@register
class DeleteTopic(_Delete):
    """The deletion of a topic and its messages. What waits for it is cancelled, or kept and creates it anew."""

    name, page, is_topic = "topics.delete", "topics", True
    destroys = True
    title, verb = _("Delete a topic"), _("Delete topic")
    effect = _("Its messages can no longer be read. This cannot be undone.")
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
        name, found = parameters["name"], self.losses(parameters)
        known = [count for count in found.waiting.values() if count is not None]
        readers = ConsumerOffset.objects.filter(broker__in=cluster().names, topic=name)
        lost = found.held()
        return DeletionPreview(
            at_ms=now_ms(),
            count=found.count,
            lost_messages=sum(count for _broker, count in lost),
            lost_readers=readers.values("group").distinct().count(),
            waiting=found.waiting,
            waiting_count=sum(known) if known else None,
            missing=found.missing,
            by_broker=lost if lost[0][0] else [],
            apart=found.apart,
        )

    def topics_of(self, broker: str, name: str) -> list[str]:
        """Return the topic alone."""
        return [name]

    def undecided(self, parameters: Mapping[str, Any], preview: DeletionPreview) -> OperationError | None:
        """Return PendingUndecided where something waits, InvalidParameter for what this broker cannot do."""
        pending = parameters.get("pending")
        if pending is None and (preview.waiting_count or AT_LEAST in preview.missing):
            return PendingUndecided(parameters["name"], preview.waiting, is_whole=not preview.missing)
        if pending == "cancel" and NOT_TOLD in preview.missing:
            return InvalidParameter(
                "pending",
                "This broker cannot cancel the pending messages of a topic: cancel its timers separately, or keep all.",
            )
        return None

    def delete(self, admin: Admin, parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Delete it, and say what waited."""
        found = admin.delete_topic(parameters["name"], parameters.get("pending"))
        if "pending" not in parameters:
            return None
        return {"pending": parameters["pending"], **(counts(found) if found is not None else {})}

    def told(self, row: Operation) -> dict[str, Any] | None:
        """Return what waited for the topic, and what became of that; of several brokers in total."""
        found = [item.result for item in row.items.exclude(outcome="") if item.result]
        if len(found) < 2:
            return dict(found[0]) if found else None
        waited = [result for result in found if "pending" in result]
        sums = {name: sum(result.get(name) or 0 for result in waited) for name in counts(TopicWaiting())}
        return {"pending": waited[0]["pending"], **sums} if waited else dict(found[0])

    def item_now(self, item: OperationItem) -> ItemNow | None:
        """Return what became of that which waited for the topic, and whether the topic has come again."""
        if not item.result.get("pending"):
            return super().item_now(item)
        waiting = waiting_words(item.result) or gettext("none counted")
        is_cancelled = item.result["pending"] == "cancel"
        text = gettext("cancelled: %(waiting)s") if is_cancelled else gettext("kept: %(waiting)s")
        said, name = text % {"waiting": waiting}, item.operation.parameters["name"]
        if not is_there_again(name, item.label.get("broker", ""), item.operation.finished_at):
            return ItemNow(text=said)
        text = gettext("%(said)s; the topic exists again") % {"said": said}
        return ItemNow(text=text, address=reverse("topic", args=[name]))


@register
class ChangeGroup(_Change):
    """Change whether a group may consume, and how often it gets a message again."""

    name, page, is_topic = "groups.change", "groups", False
    title, verb = _("Change a group"), _("Apply changes")
    effect = _("It takes effect immediately. This can be undone unless somebody else changes it again.")
    outcomes = {"changed": Outcome(_("changed"))}
    undone_by, undo_verb = name, _("Restore settings…")


@register
class CreateGroup(_Change):
    """Create a consumer group that is not there yet."""

    name, page, is_topic, is_new = "groups.create", "groups", False, True
    is_of_all = True
    title, verb = _("Create a consumer group"), _("Create group")
    begun_on, begun_at = "groups", "#create"
    effect = _("Consumers can join it immediately.")
    outcomes = {"made": Outcome(_("created"))}


@register
class DeleteGroup(_Delete):
    """The operation that deletes a group and its offsets; its tries and dead letters stay, and nobody reads them."""

    name, page, is_topic = "groups.delete", "groups", False
    destroys = True
    title, verb = _("Delete a group"), _("Delete group")
    effect = _("Its offsets are deleted. This cannot be undone.")
    outcomes = {"deleted": Outcome(_("deleted"))}
    preview_template = "groups/deletion_preview.html"

    def preview(self, parameters: Mapping[str, Any]) -> DeletionPreview:
        """Count what is lost: dead letters and tries, with those that wait for their moment."""
        name, found, names = parameters["name"], self.losses(parameters), cluster().names
        topics = ConsumerOffset.objects.filter(broker__in=names, group=name).values("topic").distinct().count()
        members = ConsumerGroup.objects.filter(broker__in=names, name=name).values_list("members", flat=True)
        lost = found.held(DLQ_PREFIX + name)
        # no count of what waits: its moments come while a second person thinks about it, and no less is lost
        waiting = sum(count or 0 for count in found.waiting.values())
        return DeletionPreview(
            at_ms=now_ms(),
            count=found.count,
            lost_messages=sum(count for _broker, count in lost) + waiting,
            lost_readers=topics,
            members=max((each for each in members if each is not None), default=None),
            waiting=found.waiting,
            missing=found.missing,
            by_broker=lost if lost[0][0] else [],
            apart=found.apart,
        )

    def topics_of(self, broker: str, name: str) -> list[str]:
        """Return where its tries are."""
        return topics_of_tries(broker, name)

    def delete(self, admin: Admin, parameters: Mapping[str, Any]) -> None:
        """Delete it with its offsets."""
        admin.delete_group(parameters["name"])


def undo_parameters(labels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what takes a change back, if nobody changed it since; raises NotPossible."""
    known = [label for label in labels if label.get("before") and label.get("after")]
    if not known or (len(labels) > 1 and not all(label.get("broker") for label in labels)):
        raise NotPossible("It changed nothing that was there before.")
    first = known[0]
    if not first.get("broker"):
        return {"name": first["name"], "settings": first["before"], "expected": first["after"]}
    at = {label["broker"]: {"settings": label["before"], "expected": label["after"]} for label in known}
    return {"name": first["name"], "at": at}


def _results_of(
    change: Callable[[Admin], Mapping[str, Any] | None], targets: Sequence[Mapping[str, Any]], done: str
) -> list[ItemResult]:
    """Make the change at each broker, beside each other, and return what became of it: `done`, refused, or unknown
    where no answer came."""

    def made(admin: Admin) -> ItemResult:
        try:
            return ItemResult(done, change(admin) or {})
        except (NotPossible, BrokerRefused, InvalidArgument) as error:
            return ItemResult("refused", {"error": str(error)})
        except ClientError as error:
            return ItemResult("unknown", {"error": str(error)})

    told = tell_each(made, [target.get("broker", "") for target in targets])
    return [each.answer for each in told if each.answer is not None]


def _expect(parameters: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name, value in parameters.get("expected", {}).items():
        if now[name] != value:
            raise NotPossible(f"{name} is {now[name]!r} now, not {value!r}: it was changed meanwhile.")


def _unread(topic: str, wanted: Mapping[str, Mapping[str, Any]]) -> int:
    """Return how many messages stand in queues that nobody will be given any more; `wanted` by broker."""

    def count(admin: Admin) -> int:
        after = wanted.get(chosen().name) or wanted[""]
        queues = admin.topic_stats(topic).queues
        return sum(each.max_offset - each.min_offset for each in queues if each.queue.queue_id >= after["read_queues"])

    return sum(each.answer or 0 for each in tell_each(count, list(wanted)))
