"""Topics and groups made, changed and deleted.

    {"name": "orders", "settings": {"write_queues": 8}}                                     make or change
    {"name": "orders", "settings": {"write_queues": 4}, "expected": {"write_queues": 8}}    only if it is so now: undo
    {"name": "orders"}                                                                      delete
    {"name": "orders", "pending": "cancel"}          delete a topic for which something waits; or "keep": it comes out

One item is the topic or group; it keeps what was before and what is after, so that a change can be taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from broker.client import BrokerRefused, ClientError, InvalidArgument
from broker.client.names import check_group, check_writable_topic
from broker.mirror.models import ConsumerGroup, ConsumerOffset
from broker.rocketmq.topics import DLQ_PREFIX
from console.features.topics import setting_fields
from console.features.topics.setting_fields import GROUP, TOPIC, Fields, Setting
from console.operations.actor import CHANGE_SETTINGS
from console.operations.errors import InvalidParameter, NotPossible, OperationError, PendingUndecided
from console.operations.kind import ItemResult, Kind, Target
from console.operations.losses import AT_LEAST, NOT_TOLD, counts, held, topics_of_tries, waiting_for
from console.operations.preview import Preview
from console.site import broker as site_broker
from console.site.clock import now_ms
from console.site.mirrored import mirrored

#: what can become of that which waits for a topic
PENDING = ("cancel", "keep")


class _Settings(Kind):
    """What topics and groups have in common."""

    permission = CHANGE_SETTINGS
    page = "settings"
    is_topic: ClassVar[bool]
    #: True: there must be none yet; False: there must be one
    is_new: ClassVar[bool] = False

    @property
    def known(self) -> tuple[Setting, ...]:
        """The settings there are."""
        return TOPIC if self.is_topic else GROUP

    def name_of(self, parameters: Mapping[str, Any]) -> str:
        """A name that the broker takes; raises InvalidParameter."""
        name = parameters.get("name")
        try:
            (check_writable_topic if self.is_topic else check_group)(name if isinstance(name, str) else "")
        except InvalidArgument as error:
            raise InvalidParameter("name", str(error)) from None
        return str(name)

    def found(self, name: str) -> Fields | None:
        """As the broker keeps it now."""
        admin = site_broker.admin()
        return admin.topic_settings(name) if self.is_topic else admin.group_settings(name)

    def existing(self, name: str) -> Fields:
        """The same of one that has to be there, or must not; raises NotPossible."""
        found = self.found(name)
        if self.is_new and found is not None:
            raise NotPossible(f"{name} is there already; change it on its page.")
        if not self.is_new and found is None:
            raise NotPossible(f"The broker has no {name}.")
        return found or {}


class _Change(_Settings):
    """Make, or change, what is named; the rest stays as it is."""

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Name and settings."""
        made: dict[str, Any] = {
            "name": self.name_of(parameters),
            "settings": setting_fields.checked(self.known, parameters.get("settings", {})),
        }
        if parameters.get("expected") is not None:
            made["expected"] = setting_fields.checked(self.known, parameters["expected"])
        return made

    def preview(self, parameters: Mapping[str, Any]) -> Preview:
        """Each setting before and after, and what comes of it; raises NotPossible when it is not as expected."""
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
        return Preview(at_ms=now_ms(), count=1 if changes else 0, changes=changes, unread=unread)

    def targets(self, parameters: Mapping[str, Any], preview: Preview) -> Sequence[Target]:
        """The topic or group, with what was before."""
        now = setting_fields.shown(self.known, self.existing(parameters["name"]))
        after = {**now, **parameters["settings"]}
        before = {name: now[name] for name in parameters["settings"]} if not self.is_new else None
        after = {name: after[name] for name in parameters["settings"]}
        return [Target({"name": parameters["name"]}, {"name": parameters["name"], "before": before, "after": after})]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Look once more, then one request a broker."""
        name, admin = parameters["name"], site_broker.admin()

        def change() -> None:
            found = self.existing(name)
            _expect(parameters, setting_fields.shown(self.known, found))
            fields = setting_fields.written(self.known, found, parameters["settings"])
            (admin.set_topic if self.is_topic else admin.set_group)(name, fields)

        return _result_of(change, "made" if self.is_new else "changed")


class _Delete(_Settings):
    """Nothing of it stays."""

    is_final = True

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The name."""
        return {"name": self.name_of(parameters)}

    def typed_word(self, parameters: Mapping[str, Any]) -> str:
        """Its name."""
        return str(parameters["name"])

    def targets(self, parameters: Mapping[str, Any], preview: Preview) -> Sequence[Target]:
        """The one."""
        found = self.existing(parameters["name"])
        before = setting_fields.shown(self.known, found)
        return [Target({"name": parameters["name"]}, {"name": parameters["name"], "before": before})]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """One request a broker."""
        admin = site_broker.admin()
        delete = admin.delete_topic if self.is_topic else admin.delete_group
        return _result_of(lambda: delete(parameters["name"]), "deleted")


class ChangeTopic(_Change):
    """Other queues, permission, type or order."""

    name, is_topic = "topics.change", True


class CreateTopic(_Change):
    """A new topic."""

    name, is_topic, is_new = "topics.create", True, True


class DeleteTopic(_Delete):
    """Its messages go with it. What waits for it is cancelled, or kept: then it makes the topic anew when it comes."""

    name, is_topic = "topics.delete", True

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The name, and what is to become of that which waits, where that is said."""
        made, pending = super().checked(parameters), parameters.get("pending")
        if pending in (None, ""):
            return made
        if pending not in PENDING:
            raise InvalidParameter("pending", f"pending is one of {', '.join(PENDING)}.")
        return {**made, "pending": pending}

    def preview(self, parameters: Mapping[str, Any]) -> Preview:
        """What is lost, and what waits for it."""
        name, broker = parameters["name"], mirrored().name
        self.existing(name)
        waiting, missing = waiting_for([name])
        known = [count for count in waiting.values() if count is not None]
        readers = ConsumerOffset.objects.filter(broker=broker, topic=name).values("group").distinct().count()
        return Preview(
            at_ms=now_ms(), count=1, lost_messages=held(broker, [name]), lost_readers=readers, waiting=waiting,
            waiting_count=sum(known) if known else None, missing=missing,
        )  # fmt: skip

    def undecided(self, parameters: Mapping[str, Any], preview: Preview) -> OperationError | None:
        """PendingUndecided where something waits, InvalidParameter for what this broker cannot do."""
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
        """One request a broker; the result says what waited."""
        told: dict[str, Any] = {}

        def delete() -> None:
            found = site_broker.admin().delete_topic(parameters["name"], parameters.get("pending"))
            if "pending" in parameters:
                told.update(pending=parameters["pending"], **(counts(found) if found is not None else {}))

        (result,) = _result_of(delete, "deleted")
        return [ItemResult(result.outcome, {**told, **result.result})]


class ChangeGroup(_Change):
    """Who may consume, and how often is tried."""

    name, is_topic = "groups.change", False


class CreateGroup(_Change):
    """A new group."""

    name, is_topic, is_new = "groups.create", False, True


class DeleteGroup(_Delete):
    """How far it has read goes with it; its tries and dead letters stay, and nobody reads them."""

    name, is_topic = "groups.delete", False

    def preview(self, parameters: Mapping[str, Any]) -> Preview:
        """What is lost: dead letters, and tries, those that wait for their moment, too."""
        name, broker = parameters["name"], mirrored().name
        self.existing(name)
        tries = topics_of_tries(broker, name)
        waiting, missing = waiting_for(tries)
        topics = ConsumerOffset.objects.filter(broker=broker, group=name).values("topic").distinct().count()
        members = ConsumerGroup.objects.filter(broker=broker, name=name).values_list("members", flat=True).first()
        # no count of what waits: its moments come while a second person thinks about it, and no less is lost
        lost = held(broker, [*tries, DLQ_PREFIX + name]) + sum(count or 0 for count in waiting.values())
        return Preview(
            at_ms=now_ms(), count=1, lost_messages=lost, lost_readers=topics, members=members, waiting=waiting,
            missing=missing,
        )  # fmt: skip


def undo_parameters(labels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What takes a change back, if nobody changed it since; raises NotPossible."""
    if len(labels) != 1 or not labels[0].get("before") or not labels[0].get("after"):
        raise NotPossible("It changed nothing that was there before.")
    label = labels[0]
    return {"name": label["name"], "settings": label["before"], "expected": label["after"]}


def _result_of(change: Callable[[], object], done: str) -> list[ItemResult]:
    """What became of the one item: `done`, refused, or unknown where no answer came."""
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
    """Messages in queues that nobody will be given any more."""
    queues = site_broker.admin().topic_stats(topic).queues
    return sum(each.max_offset - each.min_offset for each in queues if each.queue.queue_id >= wanted["read_queues"])
