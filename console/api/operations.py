"""Every operation of the REST interface in one table: routes and OpenAPI are both made from it."""

from __future__ import annotations

from console.credentials import CONSUME, PUBLISH, READ, SETTINGS

from . import (
    alertoperations,
    bulk,
    checkoperations,
    consumingoperations,
    delayedoperations,
    groupoperations,
    looking,
    resending,
    scheduling,
    sending,
    settingoperations,
    transactionoperations,
    waiting,
)
from .bulkschemas import ManyMoved, ManyTimers, OperationShown, SwitchReason, TakenBack
from .choiceschemas import OperationPreview, Resend, Resent
from .needs import EVERYWHERE, OVERVIEW, SOMEWHERE, Need
from .operation import Operation as Operation
from .schemas import FoundMessage, GroupList, LevelList, NewMessage, NewMessages, Sent, SentBatch, TopicList
from .timerschemas import Forecast, NewMoment, ScheduleChange, TimerRows, TimerTotals, Wheel

_TOPIC = ("topic", "The topic of a RocketMQ unique id.")
_REASON = ("reason", "Kept with the message in the broker's log.")
_FROM = ("from", "RFC 3339 with a zone, or ms since 1970; from this moment on.")
_TO = ("to", "RFC 3339 with a zone, or ms since 1970; before this moment.")
_STEP = ("step_ms", "Length of a step, 1,000 or more; at most 2,000 steps.")

_WAITS = (202, "It waits for a second person: Location says where to look.", OperationShown)
_BEGUN = ((202, "It runs, or has run already if it is small; Location says where to look.", OperationShown),)
_EVERYWHERE = (Need((PUBLISH,), EVERYWHERE),)
_OVERVIEW = (Need((READ,), OVERVIEW),)
#: who may begin operations, may look at them and stop them: at its own ones
_BEGINNERS = (Need((PUBLISH, CONSUME, SETTINGS), SOMEWHERE),)
_MANY = (*_BEGUN, (200, "Asked for a preview: what it would touch.", OperationPreview))

#: The busiest comes first: addresses are looked through in order.
OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST", "/topics/{topic}/messages", "Send a message", PUBLISH, sending.send_one, NewMessage,
        (
            (201, "It is on disk.", Sent), (202, "It is taken, not known to be on disk.", Sent),
            (200, "Nothing was stored: the one with this schedule_key stays.", Sent),
        ),
    ),
    Operation(
        "POST", "/topics/{topic}/messages:batch", "Send up to 1,000 messages, each on its own", PUBLISH,
        sending.send_several, NewMessages, ((207, "One answer a message, in order.", SentBatch),),
    ),
    Operation(
        "POST", "/messages/{id}:resend", "Send a message again", PUBLISH, resending.resend, Resend,
        (
            (201, "It is sent again.", Resent), _WAITS,
            (200, "This same call sent it before; asked for a preview: OperationPreview.", Resent),
        ),
        (_TOPIC,), "id",
    ),
    Operation(
        "POST", "/messages/{id}:deliver-now", "Deliver a waiting message now", PUBLISH, scheduling.deliver_now, None,
        ((200, "It is on its way to its consumers.", ScheduleChange), _WAITS), (_TOPIC, _REASON), "id",
    ),
    Operation(
        "DELETE", "/messages/{id}/schedule", "Cancel a waiting message", PUBLISH, scheduling.cancel, None,
        ((200, "It is cancelled; also if it was before.", ScheduleChange), _WAITS), (_TOPIC, _REASON), "id",
    ),
    Operation(
        "PATCH", "/messages/{id}/schedule", "Move a waiting message to another time", PUBLISH, scheduling.reschedule,
        NewMoment, ((200, "It is due at another moment now.", ScheduleChange), _WAITS), (_TOPIC,), "id",
    ),
    Operation(
        "GET", "/messages/{id}", "Look at a message", READ, looking.message, None,
        ((200, "The message.", FoundMessage),), (_TOPIC,), "id",
    ),
    Operation(
        "GET", "/topics", "List topics", READ, looking.topics, None, ((200, "Topics.", TopicList),), narrows="rows"
    ),
    Operation(
        "GET", "/groups", "List consumer groups", READ, looking.groups, None, ((200, "Groups.", GroupList),),
        narrows="rows",
    ),
    Operation(
        "GET", "/schedule/levels", "List delay levels", READ, looking.levels, None, ((200, "Levels.", LevelList),),
        needs=_OVERVIEW,
    ),
    Operation(
        "DELETE", "/topics/{topic}/schedule/{schedule_key}", "Cancel by schedule key", PUBLISH, scheduling.cancel, None,
        ((200, "It is cancelled; also if it was before.", ScheduleChange), _WAITS), (_REASON,),
    ),
    Operation(
        "PATCH", "/topics/{topic}/schedule/{schedule_key}", "Reschedule by schedule key", PUBLISH,
        scheduling.reschedule, NewMoment, ((200, "It is due at another moment now.", ScheduleChange), _WAITS),
    ),
    *transactionoperations.OPERATIONS,
    *consumingoperations.OPERATIONS,
    Operation(
        "GET", "/timers", "List waiting messages by due time", READ, waiting.timers, None,
        ((200, "A page of them.", TimerRows),),
        (
            _FROM, _TO, ("topic", "Only of this topic."), ("key", "Only with this schedule key, key or message_id."),
            ("limit", "1 to 1,000, 100 by default."), ("cursor", "From the page before."),
        ),
        "rows",
    ),
    Operation(
        "GET", "/timers/status", "All timers in figures", READ, waiting.totals, None, ((200, "Figures.", TimerTotals),),
        needs=_OVERVIEW,
    ),
    Operation(
        "GET", "/timers/wheel", "What is due when, and the next rolls", READ, waiting.wheel, None,
        ((200, "Steps that hold something.", Wheel),), (_FROM, _TO, _STEP), needs=_OVERVIEW,
    ),
    Operation(
        "GET", "/timers/forecast", "How many timers are due when, and which will be late", READ, waiting.forecast,
        None, ((200, "Steps that hold something, and herds.", Forecast),), (_FROM, _TO, _STEP), "rows", _OVERVIEW,
    ),
    Operation(
        "POST", "/timers:cancel", "Cancel chosen waiting messages, or all that match", PUBLISH, bulk.cancel,
        ManyTimers, _MANY, narrows="body",
    ),
    Operation(
        "POST", "/timers:reschedule", "Move chosen waiting messages, or all that match", PUBLISH, bulk.reschedule,
        ManyMoved, _MANY, narrows="body",
    ),
    Operation(
        "POST", "/timers:deliver-now", "Deliver chosen waiting messages now, or all that match", PUBLISH,
        bulk.deliver_now, ManyTimers, _MANY, narrows="body",
    ),
    Operation(
        "POST", "/timers:pause", "Release no timers any more", PUBLISH, bulk.pause, SwitchReason, _BEGUN,
        needs=_EVERYWHERE,
    ),
    Operation(
        "POST", "/timers:resume", "Release timers again", PUBLISH, bulk.resume, SwitchReason, _BEGUN,
        needs=_EVERYWHERE,
    ),
    Operation(
        "POST", "/operations/{id}:abort", "Stop an operation after the batch under way", PUBLISH, bulk.abort, None,
        ((200, "The operation.", OperationShown),), narrows="own", needs=_BEGINNERS,
    ),
    Operation(
        "POST", "/operations/{id}:take-back", "Take back what an operation cancelled or moved", PUBLISH,
        bulk.take_back, TakenBack, _BEGUN, narrows="own",
    ),
    *groupoperations.OPERATIONS,
    *settingoperations.OPERATIONS,
    Operation(
        "GET", "/operations/{id}", "How far an operation is", PUBLISH, bulk.operation, None,
        ((200, "The operation.", OperationShown),), narrows="own", needs=_BEGINNERS,
    ),
    *checkoperations.OPERATIONS,
    *alertoperations.OPERATIONS,
    *delayedoperations.OPERATIONS,
)  # fmt: skip
