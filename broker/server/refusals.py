"""The response code that answers each error of the engine: one table, complete by test.

The codes are RocketMQ's own for the same case (SendMessageProcessor, PullMessageProcessor, AdminBrokerProcessor).
"""

from __future__ import annotations

from ..engine import errors
from ..rocketmq.codes import Answer

REFUSALS: dict[type[errors.BrokerError], Answer] = {
    errors.BrokerError: Answer.SYSTEM_ERROR,
    errors.InvalidMessage: Answer.MESSAGE_ILLEGAL,
    errors.BodyTooLarge: Answer.MESSAGE_ILLEGAL,
    errors.PropertiesTooLarge: Answer.MESSAGE_ILLEGAL,
    errors.InvalidProperties: Answer.MESSAGE_ILLEGAL,
    errors.InvalidTopicName: Answer.MESSAGE_ILLEGAL,
    errors.InvalidGroupName: Answer.INVALID_PARAMETER,
    errors.InvalidValue: Answer.INVALID_PARAMETER,
    errors.InvalidQueue: Answer.INVALID_PARAMETER,
    errors.InvalidDelayLevel: Answer.MESSAGE_ILLEGAL,
    errors.TooManyKeys: Answer.MESSAGE_ILLEGAL,
    errors.TimerIllegal: Answer.MESSAGE_ILLEGAL,
    errors.TimerTooFar: Answer.MESSAGE_ILLEGAL,
    errors.TimerInThePast: Answer.MESSAGE_ILLEGAL,
    errors.ScheduleKeyTaken: Answer.MESSAGE_ILLEGAL,
    errors.TimerFlowControl: Answer.SYSTEM_ERROR,
    errors.FeatureMissing: Answer.MESSAGE_ILLEGAL,
    errors.TopicNotFound: Answer.TOPIC_NOT_EXIST,
    errors.TopicNotWritable: Answer.NO_PERMISSION,
    errors.TopicNotReadable: Answer.NO_PERMISSION,
    errors.GroupNotFound: Answer.SUBSCRIPTION_GROUP_NOT_EXIST,
    errors.HandleGone: Answer.NO_MESSAGE,
    errors.TransactionNotFound: Answer.QUERY_NOT_FOUND,
    errors.TransactionMismatch: Answer.INVALID_PARAMETER,
    errors.TransactionDecided: Answer.ILLEGAL_OPERATION,
    errors.StoreRefused: Answer.SERVICE_NOT_AVAILABLE,
    errors.DiskFull: Answer.SERVICE_NOT_AVAILABLE,
    errors.StoreFailed: Answer.SERVICE_NOT_AVAILABLE,
    errors.StoreClosed: Answer.SERVICE_NOT_AVAILABLE,
    errors.StoreBusy: Answer.SYSTEM_BUSY,
    errors.StoreLocked: Answer.SERVICE_NOT_AVAILABLE,
    errors.StoreUnsupported: Answer.SERVICE_NOT_AVAILABLE,
    errors.RecordNotFound: Answer.QUERY_NOT_FOUND,
    errors.CorruptRecord: Answer.SYSTEM_ERROR,
}


#: Beside the code, which is the same for many reasons: a stable word for those that programs act upon.
REASONS: dict[type[errors.BrokerError], str] = {
    errors.ScheduleKeyTaken: "schedule_key_taken",
    errors.TimerTooFar: "timer_too_far",
    errors.TimerInThePast: "timer_past",
    errors.TimerFlowControl: "timer_limit",
}


def refusal_fields(error: errors.BrokerError) -> dict[str, str] | None:
    """Return the fields of the answer: `escError` with the reason's word, `escDueMs` where a moment is in the way."""
    word = REASONS.get(type(error))
    if word is None:
        return None
    due_ms = getattr(error, "due_ms", None)
    return {"escError": word} if due_ms is None else {"escError": word, "escDueMs": str(due_ms)}


def refusal_code(error: errors.BrokerError) -> Answer:
    """Return the response code for an engine error; that of its nearest listed ancestor if it is not listed itself."""
    for kind in type(error).__mro__:
        code = REFUSALS.get(kind)
        if code is not None:
            return code
    return Answer.SYSTEM_ERROR
