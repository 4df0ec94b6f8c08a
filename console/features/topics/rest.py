"""Topics, and the settings of topics and consumer groups, by REST: look at them, make, change and delete them.

Changes are the console's operations, and requests and answers have the fields of the console's forms. A change needs
the token's `settings` scopes, a deletion `delete`; both are of topics and of consumer groups.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field
from starlette.responses import Response

from broker.client import AsyncAdmin
from broker.client.names import check_group, check_topic
from console.features.topics.operations import PENDING
from console.operations import setting_fields
from console.operations.actor import CHANGE_SETTINGS
from console.operations.models import OperationItem
from console.operations.registry import kind_of
from console.rest.access import Group, InBody, InRows, Topic
from console.rest.database import token_actor
from console.rest.errors import GroupUnknown, OperationRefused, TopicHasWaiting, TopicUnknown
from console.rest.operations import begun, in_thread
from console.rest.responses import json_answer
from console.rest.route import Call, route
from console.rest.schemas import BEGUN_OR_WAITS, Deletion, OfBroker, Reason, Text
from console.rest.several import Missing, of_broker, rows_of
from console.rest.state import ApiState
from console.security.tokens import DELETE, READ, SETTINGS

Queues = Annotated[int, Meta(ge=1, le=1_024)]
Delay = Annotated[str, Meta(max_length=20, pattern="^[1-9][0-9]*(ms|s|m|h|d)$")]
Expected = Meta(description="The change is refused unless these are the settings now.")
OnlyLook = Annotated[bool, Meta(description="Preview: answer what would be changed or lost, and change nothing.")]


class TopicSettings(Struct, forbid_unknown_fields=True, kw_only=True):
    """Settings of a topic; those that are left out stay as they are (of a new topic: 4 queues, to read and write)."""

    read_queues: Queues | UnsetType = UNSET
    write_queues: Queues | UnsetType = UNSET
    permission: Annotated[Literal[6, 4, 2], Meta(description="4 read, 2 write, 6 both.")] | UnsetType = UNSET
    message_type: (
        Annotated[
            Literal["", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"],
            Meta(description="What 5.x clients may send; empty: not specified."),
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
        Annotated[str, Meta(description="CUSTOMIZED: 10s 30s 1m; empty: the broker's delay levels.")] | UnsetType
    ) = UNSET
    retry_first_delay: Annotated[Delay, Meta(description="EXPONENTIAL: initial delay.")] | UnsetType = UNSET
    retry_longest_delay: Annotated[Delay, Meta(description="EXPONENTIAL: maximum delay.")] | UnsetType = UNSET
    retry_multiplier: Annotated[int, Meta(ge=1, description="EXPONENTIAL: from one retry to the next.")] | UnsetType = (
        UNSET
    )


class NewTopic(Struct, forbid_unknown_fields=True, kw_only=True):
    """A topic to make, with its settings."""

    name: Text
    settings: TopicSettings = field(default_factory=TopicSettings)
    reason: Reason
    preview: OnlyLook = False


class TopicChangeAt(Struct, forbid_unknown_fields=True, kw_only=True):
    """The changes at one broker."""

    settings: TopicSettings
    expected: Annotated[TopicSettings, Expected] | UnsetType = UNSET


class GroupChangeAt(Struct, forbid_unknown_fields=True, kw_only=True):
    """The changes at one broker."""

    settings: GroupSettings
    expected: Annotated[GroupSettings, Expected] | UnsetType = UNSET


class TopicChange(Struct, forbid_unknown_fields=True, kw_only=True):
    """The changes to the settings of a topic; `at`: at these brokers alone, at each its own."""

    settings: TopicSettings
    at: dict[str, TopicChangeAt] | UnsetType = UNSET
    expected: Annotated[TopicSettings, Expected] | UnsetType = UNSET
    reason: Reason
    preview: OnlyLook = False


class NewGroup(Struct, forbid_unknown_fields=True, kw_only=True):
    """A consumer group to make, with its settings."""

    name: Text
    settings: GroupSettings = field(default_factory=GroupSettings)
    reason: Reason
    preview: OnlyLook = False


class GroupChange(Struct, forbid_unknown_fields=True, kw_only=True):
    """The changes to the settings of a consumer group; `at`: at these brokers alone, at each its own."""

    settings: GroupSettings
    at: dict[str, GroupChangeAt] | UnsetType = UNSET
    expected: Annotated[GroupSettings, Expected] | UnsetType = UNSET
    reason: Reason
    preview: OnlyLook = False


class SettingsOfTopic(Struct, kw_only=True):
    """A topic's settings as the (first) broker keeps them; `by_broker`: as each of several does."""

    name: str
    settings: TopicSettings
    broker: str
    by_broker: list[SettingsOfTopic] = []


class SettingsOfGroup(Struct, kw_only=True):
    """A consumer group's settings as the (first) broker keeps them; `by_broker`: as each of several does."""

    name: str
    settings: GroupSettings
    broker: str
    by_broker: list[SettingsOfGroup] = []


class ChangeAt(Struct, kw_only=True):
    """A change that is made at these brokers."""

    brokers: list[str]
    setting: str
    before: Any
    after: Any


class Apart(Struct, kw_only=True):
    """A broker at which nothing is done: it is there already, missing, the same, or the broker is away."""

    broker: str
    code: Literal["there", "missing", "same", "away"]
    error: str | None


class WaitingForTopic(Struct, kw_only=True):
    """The messages that wait for a topic, or of the tries of a group: timers, messages of delay levels, halves that
    nobody decided about, and those that are asked about no more. null: the broker does not tell; not `complete`: there
    may be more."""

    timers: int | None
    delayed: int | None
    halves: int | None
    parked_halves: int | None
    complete: bool


class SettingsPreview(Struct, kw_only=True):
    """The preview of a change or deletion; nothing was changed.

    `changes`: name, value before (null: it is new), value after. `unread`: messages in queues that nobody would read
    any more. `lost_messages`, `lost_readers`, `members`: what a deletion would take with it, and who is connected.
    Of several brokers: `by_broker` says at which ones each change is made, `apart` where nothing is done.
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
    by_broker: list[ChangeAt] = []
    apart: list[Apart] = []


class TopicRow(Struct, kw_only=True):
    """A topic as one broker has it."""

    name: str
    broker: str
    read_queues: int
    write_queues: int
    permission: Annotated[int, Meta(description="4 read, 2 write, 6 both.")]


class TopicList(Struct, kw_only=True):
    """The topics that the token may read, a row for each broker that has it."""

    topics: list[TopicRow]
    brokers_missing: Missing


class TopicDeletion(Deletion, kw_only=True):
    """The deletion, as in Deletion, and what becomes of what waits for the topic."""

    pending: Annotated[
        str | None,
        Meta(
            description="What happens to its pending messages, needed where there are any: cancel, or keep (the "
            "first recreates it)."
        ),
    ] = None


_PREVIEW = (200, "With preview: the consequences.", SettingsPreview)


@route("GET", "/topics", "List topics", action=READ, on=InRows(), answers=((200, "Topics.", TopicList),))
async def topics(call: Call, query: OfBroker) -> Response:
    """List the topics that the token may read."""
    is_visible = call.row_check()
    found, missing = await rows_of(call.state, query.broker, lambda admin: admin.topics())
    rows = [
        TopicRow(
            name=each.name,
            broker=each.broker,
            read_queues=each.read_queues,
            write_queues=each.write_queues,
            permission=each.permission,
        )
        for each in found
        if is_visible(each.name)
    ]
    return json_answer(TopicList(topics=rows, brokers_missing=missing))


@route(
    "POST",
    "/topics",
    "Create a topic",
    action=SETTINGS,
    permission=CHANGE_SETTINGS,
    on=InBody(),
    answers=(BEGUN_OR_WAITS, _PREVIEW),
    errors=(OperationRefused,),
)
async def make_topic(call: Call, query: OfBroker, body: NewTopic) -> Response:
    """Create a topic that is not there yet."""
    check_topic(body.name)
    call.require(body.name, "topic")
    parameters = {"name": body.name, "settings": msgspec.to_builtins(body.settings)}
    return await _done("topics.create", parameters, call, body.reason, query.broker, is_look=body.preview)


@route(
    "GET",
    "/topics/{topic}/settings",
    "Get the settings of a topic",
    action=READ,
    on=Topic(),
    answers=((200, "As they are now.", SettingsOfTopic),),
    errors=(TopicUnknown,),
)
async def topic_settings(call: Call, query: OfBroker) -> Response:
    """Answer the settings as they are now; of several brokers as the first that has it keeps them, and by broker."""
    return json_answer(await _topic(call.named["topic"], call.state, query.broker))


@route(
    "PATCH",
    "/topics/{topic}/settings",
    "Change the settings of a topic",
    action=SETTINGS,
    permission=CHANGE_SETTINGS,
    on=Topic(),
    answers=(BEGUN_OR_WAITS, (200, "Already set.", SettingsOfTopic), _PREVIEW),
    errors=(TopicUnknown, OperationRefused),
)
async def change_topic(call: Call, query: OfBroker, body: TopicChange) -> Response:
    """Change the settings that are named; 200 if all of it is so already."""
    now = await _topic(call.named["topic"], call.state, query.broker)
    return await _change(call, "topics.change", now, body, query.broker)


@route(
    "DELETE",
    "/topics/{topic}",
    "Delete a topic with its messages",
    action=DELETE,
    permission=CHANGE_SETTINGS,
    on=Topic(),
    answers=(BEGUN_OR_WAITS, _PREVIEW),
    errors=(TopicUnknown, OperationRefused, TopicHasWaiting),
)
async def delete_topic(call: Call, query: TopicDeletion) -> Response:
    """Delete the topic with its messages; what waits for it is cancelled or kept, as `pending` says."""
    if query.pending not in (None, *PENDING):
        raise OperationRefused(f"pending is one of {', '.join(PENDING)}.", "pending")
    pending = {} if query.pending is None else {"pending": query.pending}
    is_look, name = query.is_look(), (await _topic(call.named["topic"], call.state, query.broker)).name
    return await _done("topics.delete", {"name": name, **pending}, call, query.reason, query.broker, is_look=is_look)


@route(
    "POST",
    "/groups",
    "Create a consumer group",
    action=SETTINGS,
    permission=CHANGE_SETTINGS,
    on=InBody(),
    answers=(BEGUN_OR_WAITS, _PREVIEW),
    errors=(OperationRefused,),
)
async def make_group(call: Call, query: OfBroker, body: NewGroup) -> Response:
    """Create a consumer group that is not there yet."""
    check_group(body.name)
    call.require(body.name, "group")
    parameters = {"name": body.name, "settings": msgspec.to_builtins(body.settings)}
    return await _done("groups.create", parameters, call, body.reason, query.broker, is_look=body.preview)


@route(
    "GET",
    "/groups/{group}/settings",
    "Get the settings of a consumer group",
    action=READ,
    on=Group(),
    answers=((200, "As they are now.", SettingsOfGroup),),
    errors=(GroupUnknown,),
)
async def group_settings(call: Call, query: OfBroker) -> Response:
    """Answer the settings as they are now; of several brokers as the first that has it keeps them, and by broker."""
    return json_answer(await _group(call.named["group"], call.state, query.broker))


@route(
    "PATCH",
    "/groups/{group}/settings",
    "Change the settings of a consumer group",
    action=SETTINGS,
    permission=CHANGE_SETTINGS,
    on=Group(),
    answers=(BEGUN_OR_WAITS, (200, "Already set.", SettingsOfGroup), _PREVIEW),
    errors=(GroupUnknown, OperationRefused),
)
async def change_group(call: Call, query: OfBroker, body: GroupChange) -> Response:
    """Change the settings that are named; 200 if all of it is so already."""
    now = await _group(call.named["group"], call.state, query.broker)
    return await _change(call, "groups.change", now, body, query.broker)


@route(
    "DELETE",
    "/groups/{group}",
    "Delete a consumer group with how far it has read",
    action=DELETE,
    permission=CHANGE_SETTINGS,
    on=Group(),
    answers=(BEGUN_OR_WAITS, _PREVIEW),
    errors=(GroupUnknown, OperationRefused),
)
async def delete_group(call: Call, query: Deletion) -> Response:
    """Delete the group with how far it has read."""
    is_look, name = query.is_look(), (await _group(call.named["group"], call.state, query.broker)).name
    return await _done("groups.delete", {"name": name}, call, query.reason, query.broker, is_look=is_look)


async def _topic(name: str, state: ApiState, broker: str) -> SettingsOfTopic:
    """A topic's settings as the brokers keep them; raises InvalidArgument, TopicUnknown, BrokerUnknown."""
    check_topic(name)
    found = await _by_broker(state, broker, lambda admin: admin.topic_settings(name))
    if not found:
        raise TopicUnknown(f"The broker has no topic {name}.")
    own = [
        SettingsOfTopic(
            name=name,
            settings=msgspec.convert(setting_fields.shown(setting_fields.TOPIC, fields), TopicSettings),
            broker=each,
        )
        for each, fields in found
    ]
    return msgspec.structs.replace(own[0], by_broker=own if len(own) > 1 else [])


async def _group(name: str, state: ApiState, broker: str) -> SettingsOfGroup:
    """A consumer group's settings as the brokers keep them; raises InvalidArgument, GroupUnknown, BrokerUnknown."""
    check_group(name)
    found = await _by_broker(state, broker, lambda admin: admin.group_settings(name))
    if not found:
        raise GroupUnknown(f"The broker has no consumer group {name}.")
    own = [
        SettingsOfGroup(
            name=name,
            settings=msgspec.convert(setting_fields.shown(setting_fields.GROUP, fields), GroupSettings),
            broker=each,
        )
        for each, fields in found
    ]
    return msgspec.structs.replace(own[0], by_broker=own if len(own) > 1 else [])


async def _by_broker(
    state: ApiState, broker: str, question: Callable[[AsyncAdmin], Awaitable[Mapping[str, Any] | None]]
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return what each broker that answers keeps, with its name."""

    async def asked(admin: AsyncAdmin) -> list[tuple[str, Mapping[str, Any]]]:
        fields = await question(admin)
        return [] if fields is None else [((await admin.asked()).name, fields)]

    return (await rows_of(state, broker, asked))[0]


async def _change(
    call: Call, kind: str, now: SettingsOfTopic | SettingsOfGroup, body: TopicChange | GroupChange, broker: str
) -> Response:
    parameters = msgspec.to_builtins(body)
    is_look, reason = parameters.pop("preview"), parameters.pop("reason")
    kept = [msgspec.to_builtins(each.settings) for each in now.by_broker or [now]]
    is_so = all(settings[name] == value for settings in kept for name, value in parameters["settings"].items())
    if not is_look and is_so and "at" not in parameters:
        return json_answer(now)
    return await _done(kind, {"name": now.name, **parameters}, call, reason, broker, is_look=is_look)


async def _done(
    kind: str, parameters: Mapping[str, Any], call: Call, reason: str, broker: str, *, is_look: bool
) -> Response:
    """Begin the operation, or say what would come of it; raises OperationRefused where all brokers refused it."""
    if is_look:
        return json_answer(await in_thread(lambda: _preview(kind, parameters, broker)))
    actor = token_actor(call.grant, frozenset((CHANGE_SETTINGS,)))
    answer = await begun(kind, parameters, reason, actor, broker=broker)
    operation_id = uuid.UUID(answer.headers["location"].rpartition("/")[2])
    items = OperationItem.objects.filter(operation_id=operation_id).exclude(outcome="")
    outcomes = await in_thread(lambda: list(items.values_list("outcome", "result")))
    if outcomes and all(outcome == "refused" for outcome, _result in outcomes):
        raise OperationRefused(str(outcomes[0][1].get("error", "The broker refused it.")))
    return answer


def _preview(kind_name: str, parameters: Mapping[str, Any], broker: str) -> SettingsPreview:
    """Return the preview that the console's operation counts."""
    kind = kind_of(kind_name)
    checked = kind.checked(parameters)
    with of_broker(broker):
        found = kind.preview(checked).as_row()
    return SettingsPreview(
        name=checked["name"],
        changes=[(name, before, after) for name, before, after, *_brokers in found.get("changes", ())],
        by_broker=[
            ChangeAt(brokers=brokers, setting=name, before=before, after=after)
            for name, before, after, *of in found.get("changes", ())
            for brokers in of
        ],
        apart=[Apart(broker=name, code=code, error=error or None) for name, code, error in found.get("apart", ())],
        unread=found.get("unread"),
        lost_messages=found.get("lost_messages"),
        lost_readers=found.get("lost_readers"),
        members=found.get("members"),
        waiting=_waiting(found),
    )


def _waiting(found: Mapping[str, Any]) -> WaitingForTopic | None:
    """Return what waits for a topic that is to be deleted, None where nothing was counted."""
    return WaitingForTopic(**found["waiting"], complete=not found["missing"]) if found.get("waiting") else None
