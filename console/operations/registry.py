"""Every kind of operation by its name."""

from __future__ import annotations

from collections.abc import Mapping

from console.operations import alert_silences, alerts
from console.operations.delayed import (
    ClearQueue,
    DeliverValuesNow,
    MoveValues,
    PutBack,
    RemoveValues,
    RescheduleValues,
    SetAside,
)
from console.operations.delayed_modes import ImportQueue, MakePlain, MakeReliable, OfferValue, RepairQueue
from console.operations.errors import InvalidParameter
from console.operations.kind import Kind
from console.operations.pausing import PauseTimers, ResumeTimers
from console.operations.resending import SendAsNew, SendBack
from console.operations.resending_one import ResendMessage
from console.operations.resetting import ResetOffsets
from console.operations.settings import ChangeGroup, ChangeTopic, CreateGroup, CreateTopic, DeleteGroup, DeleteTopic
from console.operations.steering import CancelTimers, DeliverTimersNow, RescheduleTimers
from console.operations.taking_back import TakeBack
from console.operations.transactions import (
    CheckTransactions,
    CommitTransactions,
    ResumeTransactions,
    RollBackTransactions,
)

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
        *alerts.KINDS,
        *alert_silences.KINDS,
    )
}


def kind_of(name: str) -> Kind:
    """The kind with this name; raises InvalidParameter."""
    found = KINDS.get(name)
    if found is None:
        raise InvalidParameter("kind", f"There is no operation {name[:60]!r}; there are: {', '.join(KINDS)}.")
    return found
