"""Settings of topics and consumer groups by REST: look at them, and make, change and delete topics and groups.

Changes are the console's operations, and requests and answers have the fields of the console's forms. A change needs
the token's `settings` prefixes, a deletion `delete`; both are of topics and of consumer groups.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field
from starlette.requests import Request
from starlette.responses import Response

from broker.client.names import check_group, check_topic
from console.features.messages.rest import only_parameters
from console.features.timers.rest_bulk import MAX_BODY_BYTES, actor_of
from console.features.timers.rest_bulk_schemas import BulkReason, OperationShown
from console.features.topics import setting_fields
from console.features.topics.operations import PENDING
from console.operations.actor import CHANGE_SETTINGS
from console.operations.models import OperationItem
from console.operations.registry import kind_of
from console.rest.errors import GroupUnknown, OperationRefused, TopicUnknown
from console.rest.grants import require
from console.rest.operations_bridge import begun, in_thread
from console.rest.request_body import decode, read_body
from console.rest.responses import json_answer
from console.rest.route import Operation
from console.rest.schemas import Text
from console.rest.state import Room
from console.security.tokens import DELETE, READ, SETTINGS, Grant

Queues = Annotated[int, Meta(ge=1, le=1_024)]
Delay = Annotated[str, Meta(max_length=20, pattern="^[1-9][0-9]*(ms|s|m|h|d)$")]
Expected = Meta(description="The change is refused unless these are the settings now.")
OnlyLook = Annotated[bool, Meta(description="Answer what would be changed, or lost, and change nothing.")]


class TopicSettings(Struct, forbid_unknown_fields=True, kw_only=True):
    """Settings of a topic; those that are left out stay as they are (of a new topic: 4 queues, to read and write)."""

    read_queues: Queues | UnsetType = UNSET
    write_queues: Queues | UnsetType = UNSET
    permission: Annotated[Literal[6, 4, 2], Meta(description="4 read, 2 write, 6 both.")] | UnsetType = UNSET
    message_type: (
        Annotated[
            Literal["", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"],
            Meta(description="What 5.x clients may send; empty: not said."),
        ]
        | UnsetType
    ) = UNSET
    order: bool | UnsetType = UNSET


class GroupSettings(Struct, forbid_unknown_fields=True, kw_only=True):
    """Settings of a consumer group; those that are left out stay as they are."""

    consume_enabled: bool | UnsetType = UNSET
    broadcast_enabled: bool | UnsetType = UNSET
    orderly: Annotated[bool, Meta(description="5.x clients get the messages of a queue in order.")] | UnsetType = UNSET
    retry_max_times: Annotated[int, Meta(ge=0, le=10_000)] | UnsetType = UNSET
    retry_policy: Literal["CUSTOMIZED", "EXPONENTIAL"] | UnsetType = UNSET
    retry_delays: (
        Annotated[str, Meta(description="CUSTOMIZED: 10s 30s 1m; empty: the broker's levels.")] | UnsetType
    ) = UNSET
    retry_first_delay: Annotated[Delay, Meta(description="EXPONENTIAL: of the first try.")] | UnsetType = UNSET
    retry_longest_delay: Annotated[Delay, Meta(description="EXPONENTIAL: no try waits longer.")] | UnsetType = UNSET
    retry_multiplier: Annotated[int, Meta(ge=1, description="EXPONENTIAL: from one try to the next.")] | UnsetType = (
        UNSET
    )


class NewTopic(Struct, forbid_unknown_fields=True, kw_only=True):
    """A topic to make."""

    name: Text
    settings: TopicSettings = field(default_factory=TopicSettings)
    reason: BulkReason
    preview: OnlyLook = False


class TopicChange(Struct, forbid_unknown_fields=True, kw_only=True):
    """What is to be changed of a topic."""

    settings: TopicSettings
    expected: Annotated[TopicSettings, Expected] | UnsetType = UNSET
    reason: BulkReason
    preview: OnlyLook = False


class NewGroup(Struct, forbid_unknown_fields=True, kw_only=True):
    """A consumer group to make."""

    name: Text
    settings: GroupSettings = field(default_factory=GroupSettings)
    reason: BulkReason
    preview: OnlyLook = False


class GroupChange(Struct, forbid_unknown_fields=True, kw_only=True):
    """What is to be changed of a consumer group."""

    settings: GroupSettings
    expected: Annotated[GroupSettings, Expected] | UnsetType = UNSET
    reason: BulkReason
    preview: OnlyLook = False


class SettingsOfTopic(Struct, kw_only=True):
    """A topic's settings as the (first) broker keeps them."""

    name: str
    settings: TopicSettings


class SettingsOfGroup(Struct, kw_only=True):
    """A consumer group's settings as the (first) broker keeps them."""

    name: str
    settings: GroupSettings


class WaitingForTopic(Struct, kw_only=True):
    """What waits for a topic, or of the tries of a group: timers, messages of delay levels, halves that nobody decided
    about, and those that are asked about no more. null: the broker does not tell; not `complete`: there may be more."""

    timers: int | None
    delayed: int | None
    halves: int | None
    parked_halves: int | None
    complete: bool


class SettingsPreview(Struct, kw_only=True):
    """What would come of it; nothing was changed.

    `changes`: name, value before (null: it is new), value after. `unread`: messages in queues that nobody would read
    any more. `lost_messages`, `lost_readers`, `members`: what a deletion would take with it, and who is connected.
    """

    name: str
    changes: list[tuple[str, int | bool | str | None, int | bool | str | None]]
    unread: int | None
    lost_messages: int | None
    lost_readers: int | None
    members: int | None
    waiting: Annotated[
        WaitingForTopic | None,
        Meta(description="Of a topic that would be deleted; of a group which of `lost_messages` wait."),
    ] = None


New = TypeVar("New", NewTopic, NewGroup)
Change = TypeVar("Change", TopicChange, GroupChange)


class _Settings(ABC, Generic[New, Change]):
    """The handlers of topics, or of groups; `kind` is the word for one of them."""

    kind: ClassVar[str]

    def __init__(self, new: type[New], change: type[Change]) -> None:
        self._new: msgspec.json.Decoder[New] = msgspec.json.Decoder(new)
        self._change: msgspec.json.Decoder[Change] = msgspec.json.Decoder(change)

    async def look(self, request: Request, grant: Grant, room: Room) -> Response:
        """As they are now."""
        only_parameters(request)
        name = self._named(request)
        return json_answer(await self._shown(name, room))

    async def make(self, request: Request, grant: Grant, room: Room) -> Response:
        """One that is not there yet."""
        only_parameters(request)
        wanted = decode(await read_body(request, MAX_BODY_BYTES), self._new)
        self._check(wanted.name)
        require(grant, SETTINGS, wanted.name, self.kind)
        parameters = {"name": wanted.name, "settings": msgspec.to_builtins(wanted.settings)}
        return await self._done("create", parameters, grant, wanted.reason, is_look=wanted.preview)

    async def change(self, request: Request, grant: Grant, room: Room) -> Response:
        """What is named; 200 if all of it is so already."""
        only_parameters(request)
        name = self._named(request)
        wanted = decode(await read_body(request, MAX_BODY_BYTES), self._change)
        parameters = msgspec.to_builtins(wanted)
        is_look, reason = parameters.pop("preview"), parameters.pop("reason")
        now = await self._shown(name, room)
        settings = msgspec.to_builtins(now.settings)
        if not is_look and all(settings[each] == value for each, value in parameters["settings"].items()):
            return json_answer(now)
        return await self._done("change", {"name": name, **parameters}, grant, reason, is_look=is_look)

    async def delete(self, request: Request, grant: Grant, room: Room) -> Response:
        """Nothing of it stays."""
        only_parameters(request, "reason", "preview", *(("pending",) if self.kind == "topic" else ()))
        name, pending = self._named(request), request.query_params.get("pending")
        if pending not in (None, *PENDING):
            raise OperationRefused(f"pending is one of {', '.join(PENDING)}.", "pending")
        reason, look = request.query_params.get("reason", ""), request.query_params.get("preview", "false")
        if look not in ("true", "false"):
            raise OperationRefused("preview is true or false.", "preview")
        await self._shown(name, room)
        parameters = {"name": name} if pending is None else {"name": name, "pending": pending}
        return await self._done("delete", parameters, grant, reason, is_look=look == "true")

    @abstractmethod
    async def _shown(self, name: str, room: Room) -> SettingsOfTopic | SettingsOfGroup:
        """As the broker keeps them; raises TopicUnknown, GroupUnknown."""

    def _check(self, name: str) -> None:
        (check_topic if self.kind == "topic" else check_group)(name)

    def _named(self, request: Request) -> str:
        name: str = request.path_params[self.kind]
        self._check(name)
        return name

    async def _done(
        self, verb: str, parameters: Mapping[str, Any], grant: Grant, reason: str, *, is_look: bool
    ) -> Response:  # fmt: skip
        kind = f"{self.kind}s.{verb}"
        if is_look:
            return json_answer(await in_thread(lambda: _preview(kind, parameters)))
        actor = replace(actor_of(grant), permissions=frozenset((CHANGE_SETTINGS,)))
        answer = await begun(kind, parameters, reason, actor)
        number = uuid.UUID(answer.headers["location"].rpartition("/")[2])
        refused = await in_thread(lambda: OperationItem.objects.filter(operation_id=number, outcome="refused").first())
        if refused is not None:
            raise OperationRefused(str(refused.result.get("error", "The broker refused it.")))
        return answer


class _Topics(_Settings[NewTopic, TopicChange]):
    kind = "topic"

    async def _shown(self, name: str, room: Room) -> SettingsOfTopic:
        found = await room.admin.topic_settings(name)
        if found is None:
            raise TopicUnknown(f"The broker has no topic {name}.")
        settings = msgspec.convert(setting_fields.shown(setting_fields.TOPIC, found), TopicSettings)
        return SettingsOfTopic(name=name, settings=settings)


class _Groups(_Settings[NewGroup, GroupChange]):
    kind = "group"

    async def _shown(self, name: str, room: Room) -> SettingsOfGroup:
        found = await room.admin.group_settings(name)
        if found is None:
            raise GroupUnknown(f"The broker has no consumer group {name}.")
        settings = msgspec.convert(setting_fields.shown(setting_fields.GROUP, found), GroupSettings)
        return SettingsOfGroup(name=name, settings=settings)


def _preview(kind_name: str, parameters: Mapping[str, Any]) -> SettingsPreview:
    """As the console's operation counts it."""
    kind = kind_of(kind_name)
    checked = kind.checked(parameters)
    found = kind.preview(checked).as_row()
    return SettingsPreview(
        name=checked["name"], changes=[(name, before, after) for name, before, after in found.get("changes", ())],
        unread=found.get("unread"), lost_messages=found.get("lost_messages"), lost_readers=found.get("lost_readers"),
        members=found.get("members"), waiting=_waiting(found),
    )  # fmt: skip


def _waiting(found: Mapping[str, Any]) -> WaitingForTopic | None:
    """Of what is to be deleted."""
    return WaitingForTopic(**found["waiting"], complete=not found["missing"]) if found.get("waiting") else None


topics = _Topics(NewTopic, TopicChange)
groups = _Groups(NewGroup, GroupChange)

_TOPIC, _GROUP = "/topics/{topic}", "/groups/{group}"
_DELETE = (("reason", "Kept in the audit."), ("preview", "true: say what would be lost, and delete nothing."))
_PENDING = (
    "pending", "What becomes of what waits for it, needed where something does: cancel, or keep (it makes it anew).",
)  # fmt: skip
_BEGUN = (202, "It is done, or waits for a second person; Location says where to look.", OperationShown)
_PREVIEW = (200, "Asked for a preview: what would come of it.", SettingsPreview)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST", "/topics", "Make a topic", SETTINGS, topics.make, NewTopic, (_BEGUN, _PREVIEW), narrows="body"
    ),
    Operation(
        "GET", f"{_TOPIC}/settings", "Look at a topic's settings", READ, topics.look, None,
        ((200, "As they are now.", SettingsOfTopic),),
    ),
    Operation(
        "PATCH", f"{_TOPIC}/settings", "Change a topic's settings", SETTINGS, topics.change, TopicChange,
        (_BEGUN, (200, "They are so already; asked for a preview: SettingsPreview.", SettingsOfTopic)),
    ),
    Operation(
        "DELETE", _TOPIC, "Delete a topic with its messages", DELETE, topics.delete, None,
        (_BEGUN, _PREVIEW), (*_DELETE, _PENDING),
    ),
    Operation(
        "POST", "/groups", "Make a consumer group", SETTINGS, groups.make, NewGroup, (_BEGUN, _PREVIEW),
        narrows="body",
    ),
    Operation(
        "GET", f"{_GROUP}/settings", "Look at a consumer group's settings", READ, groups.look, None,
        ((200, "As they are now.", SettingsOfGroup),),
    ),
    Operation(
        "PATCH", f"{_GROUP}/settings", "Change a consumer group's settings", SETTINGS, groups.change,
        GroupChange, (_BEGUN, (200, "They are so already; asked for a preview: SettingsPreview.", SettingsOfGroup)),
    ),
    Operation(
        "DELETE", _GROUP, "Delete a consumer group with how far it has read", DELETE, groups.delete, None,
        (_BEGUN, _PREVIEW), _DELETE,
    ),
)  # fmt: skip
