"""Every operation of the REST interface in one table: routes and OpenAPI are both made from it."""

from __future__ import annotations

from console.security.tokens import CONSUME, PUBLISH, READ, SETTINGS

from ..features.alerts import rest as alerts_rest_routes
from ..features.checkback import rest as checkback_rest_routes
from ..features.groups import rest as groups_rest_routes
from ..features.groups import rest_consuming
from ..features.messages import rest as messages_rest
from ..features.messages import rest_resend, rest_send
from ..features.redisson import rest as redisson_rest_routes
from ..features.timers import rest as timers_rest
from ..features.timers import rest_bulk, rest_schedule
from ..features.timers.rest_bulk_schemas import ManyMoved, ManyTimers, OperationShown, SwitchReason, TakenBack
from ..features.timers.rest_schemas import Forecast, NewMoment, ScheduleChange, TimerRows, TimerTotals, Wheel
from ..features.topics import rest as topics_rest_routes
from ..features.transactions import rest_routes as transactions_rest_routes
from .choice_schemas import OperationPreview, Resend, Resent
from .needs import EVERYWHERE, OVERVIEW, SOMEWHERE, Need
from .route import Operation as Operation
from .schemas import (
    FoundMessage,
    GroupList,
    LevelList,
    NewMessage,
    NewMessages,
    Sent,
    SentBatch,
    TopicList,
)

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
        "POST", "/topics/{topic}/messages", "Send a message", PUBLISH, rest_send.send_one, NewMessage,
        (
            (201, "It is on disk.", Sent), (202, "It is taken, not known to be on disk.", Sent),
            (200, "Nothing was stored: the one with this schedule_key stays.", Sent),
        ),
    ),
    Operation(
        "POST", "/topics/{topic}/messages:batch", "Send up to 1,000 messages, each on its own", PUBLISH,
        rest_send.send_several, NewMessages, ((207, "One answer a message, in order.", SentBatch),),
    ),
    Operation(
        "POST", "/messages/{id}:resend", "Send a message again", PUBLISH, rest_resend.resend, Resend,
        (
            (201, "It is sent again.", Resent), _WAITS,
            (200, "This same call sent it before; asked for a preview: OperationPreview.", Resent),
        ),
        (_TOPIC,), "id",
    ),
    Operation(
        "POST", "/messages/{id}:deliver-now", "Deliver a waiting message now", PUBLISH, rest_schedule.deliver_now, None,
        ((200, "It is on its way to its consumers.", ScheduleChange), _WAITS), (_TOPIC, _REASON), "id",
    ),
    Operation(
        "DELETE", "/messages/{id}/schedule", "Cancel a waiting message", PUBLISH, rest_schedule.cancel, None,
        ((200, "It is cancelled; also if it was before.", ScheduleChange), _WAITS), (_TOPIC, _REASON), "id",
    ),
    Operation(
        "PATCH", "/messages/{id}/schedule", "Move a waiting message to another time", PUBLISH, rest_schedule.reschedule,
        NewMoment, ((200, "It is due at another moment now.", ScheduleChange), _WAITS), (_TOPIC,), "id",
    ),
    Operation(
        "GET", "/messages/{id}", "Look at a message", READ, messages_rest.message, None,
        ((200, "The message.", FoundMessage),), (_TOPIC,), "id",
    ),
    Operation(
        "GET", "/topics", "List topics", READ, messages_rest.topics, None, ((200, "Topics.", TopicList),),
        narrows="rows",
    ),
    Operation(
        "GET", "/groups", "List consumer groups", READ, messages_rest.groups, None, ((200, "Groups.", GroupList),),
        narrows="rows",
    ),
    Operation(
        "GET", "/schedule/levels", "List delay levels", READ, messages_rest.levels, None,
        ((200, "Levels.", LevelList),), needs=_OVERVIEW,
    ),
    Operation(
        "DELETE", "/topics/{topic}/schedule/{schedule_key}", "Cancel by schedule key", PUBLISH, rest_schedule.cancel,
        None, ((200, "It is cancelled; also if it was before.", ScheduleChange), _WAITS), (_REASON,),
    ),
    Operation(
        "PATCH", "/topics/{topic}/schedule/{schedule_key}", "Reschedule by schedule key", PUBLISH,
        rest_schedule.reschedule, NewMoment, ((200, "It is due at another moment now.", ScheduleChange), _WAITS),
    ),
    *transactions_rest_routes.OPERATIONS,
    *rest_consuming.OPERATIONS,
    Operation(
        "GET", "/timers", "List waiting messages by due time", READ, timers_rest.timers, None,
        ((200, "A page of them.", TimerRows),),
        (
            _FROM, _TO, ("topic", "Only of this topic."), ("key", "Only with this schedule key, key or message_id."),
            ("limit", "1 to 1,000, 100 by default."), ("cursor", "From the page before."),
        ),
        "rows",
    ),
    Operation(
        "GET", "/timers/status", "All timers in figures", READ, timers_rest.totals, None,
        ((200, "Figures.", TimerTotals),), needs=_OVERVIEW,
    ),
    Operation(
        "GET", "/timers/wheel", "What is due when, and the next rolls", READ, timers_rest.wheel, None,
        ((200, "Steps that hold something.", Wheel),), (_FROM, _TO, _STEP), needs=_OVERVIEW,
    ),
    Operation(
        "GET", "/timers/forecast", "How many timers are due when, and which will be late", READ, timers_rest.forecast,
        None, ((200, "Steps that hold something, and herds.", Forecast),), (_FROM, _TO, _STEP), "rows", _OVERVIEW,
    ),
    Operation(
        "POST", "/timers:cancel", "Cancel chosen waiting messages, or all that match", PUBLISH, rest_bulk.cancel,
        ManyTimers, _MANY, narrows="body",
    ),
    Operation(
        "POST", "/timers:reschedule", "Move chosen waiting messages, or all that match", PUBLISH, rest_bulk.reschedule,
        ManyMoved, _MANY, narrows="body",
    ),
    Operation(
        "POST", "/timers:deliver-now", "Deliver chosen waiting messages now, or all that match", PUBLISH,
        rest_bulk.deliver_now, ManyTimers, _MANY, narrows="body",
    ),
    Operation(
        "POST", "/timers:pause", "Release no timers any more", PUBLISH, rest_bulk.pause, SwitchReason, _BEGUN,
        needs=_EVERYWHERE,
    ),
    Operation(
        "POST", "/timers:resume", "Release timers again", PUBLISH, rest_bulk.resume, SwitchReason, _BEGUN,
        needs=_EVERYWHERE,
    ),
    Operation(
        "POST", "/operations/{id}:abort", "Stop an operation after the batch under way", PUBLISH, rest_bulk.abort, None,
        ((200, "The operation.", OperationShown),), narrows="own", needs=_BEGINNERS,
    ),
    Operation(
        "POST", "/operations/{id}:take-back", "Take back what an operation cancelled or moved", PUBLISH,
        rest_bulk.take_back, TakenBack, _BEGUN, narrows="own",
    ),
    *groups_rest_routes.OPERATIONS,
    *topics_rest_routes.OPERATIONS,
    Operation(
        "GET", "/operations/{id}", "How far an operation is", PUBLISH, rest_bulk.operation, None,
        ((200, "The operation.", OperationShown),), narrows="own", needs=_BEGINNERS,
    ),
    *checkback_rest_routes.OPERATIONS,
    *alerts_rest_routes.OPERATIONS,
    *redisson_rest_routes.OPERATIONS,
)  # fmt: skip
