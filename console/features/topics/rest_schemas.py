"""What requests and answers about the settings of topics and groups look like: those of the console's forms."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from ...rest.schemas import Text
from ..timers.rest_bulk_schemas import BulkReason

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
