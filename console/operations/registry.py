"""Every kind of operation by its name."""

from __future__ import annotations

from collections.abc import Mapping

from console.features.alerts import operations as alerts_operations
from console.features.alerts import silence_operations
from console.features.dead_letters.operations import SendAsNew, SendBack
from console.features.groups.operations import ResetOffsets
from console.features.messages.operations import ResendMessage
from console.features.redisson.operations import (
    ClearQueue,
    DeliverValuesNow,
    MoveValues,
    PutBack,
    RemoveValues,
    RescheduleValues,
    SetAside,
)
from console.features.redisson.queue_operations import ImportQueue, MakePlain, MakeReliable, OfferValue, RepairQueue
from console.features.timers.operations import CancelTimers, DeliverTimersNow, RescheduleTimers
from console.features.timers.pause_operations import PauseTimers, ResumeTimers
from console.features.timers.undo_operations import TakeBack
from console.features.topics.operations import (
    ChangeGroup,
    ChangeTopic,
    CreateGroup,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
)
from console.features.transactions.operations import (
    CheckTransactions,
    CommitTransactions,
    ResumeTransactions,
    RollBackTransactions,
)
from console.operations.errors import InvalidParameter
from console.operations.kind import Kind

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        CancelTimers(),
        RescheduleTimers(),
        DeliverTimersNow(),
        TakeBack(),
        PauseTimers(),
        ResumeTimers(),
        RemoveValues(),
        DeliverValuesNow(),
        RescheduleValues(),
        MoveValues(),
        SetAside(),
        PutBack(),
        ClearQueue(),
        OfferValue(),
        RepairQueue(),
        MakeReliable(),
        ImportQueue(),
        MakePlain(),
        CommitTransactions(),
        RollBackTransactions(),
        CheckTransactions(),
        ResumeTransactions(),
        SendBack(),
        SendAsNew(),
        ResendMessage(),
        ResetOffsets(),
        ChangeTopic(),
        CreateTopic(),
        DeleteTopic(),
        ChangeGroup(),
        CreateGroup(),
        DeleteGroup(),
        *alerts_operations.KINDS,
        *silence_operations.KINDS,
    )
}


def kind_of(name: str) -> Kind:
    """The kind with this name; raises InvalidParameter."""
    found = KINDS.get(name)
    if found is None:
        raise InvalidParameter("kind", f"There is no operation {name[:60]!r}; there are: {', '.join(KINDS)}.")
    return found
