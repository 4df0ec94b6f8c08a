"""Properties of a message: a map of text to text, stored as ``name \\x01 value \\x02`` in UTF-8."""

from __future__ import annotations

from collections.abc import Mapping

from .errors import InvalidProperties
from .layout import CRC_PROPERTY

# property names (MessageConst)
#: All that are ours begin so.
OWN_PREFIX = "ESC_"
KEYS = "KEYS"
TAGS = "TAGS"
UNIQUE_KEY = "UNIQ_KEY"
DELAY = "DELAY"
REAL_TOPIC = "REAL_TOPIC"
REAL_QUEUE_ID = "REAL_QID"
RETRY_TOPIC = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
WAIT = "WAIT"
SHARDING_KEY = "__SHARDINGKEY"
MIN_OFFSET = "MIN_OFFSET"
MAX_OFFSET = "MAX_OFFSET"
BUYER_ID = "BUYER_ID"
TRANSFER_FLAG = "TRANSFER_FLAG"
CORRECTION_FLAG = "CORRECTION_FLAG"
MQ2_FLAG = "MQ2_FLAG"
RECONSUME_TIME = "RECONSUME_TIME"
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
CONSUME_START_TIMESTAMP = "CONSUME_START_TIME"
MSG_REGION = "MSG_REGION"
TRACE_SWITCH = "TRACE_ON"
EXTEND_UNIQ_INFO = "EXTEND_UNIQ_INFO"
INSTANCE_ID = "INSTANCE_ID"
INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
INNER_BASE = "INNER_BASE"
INNER_NUM = "INNER_NUM"
DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"
# questions and answers
CLUSTER = "CLUSTER"
CORRELATION_ID = "CORRELATION_ID"
MESSAGE_REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
MESSAGE_TTL = "TTL"
MESSAGE_TYPE = "MSG_TYPE"
REPLY_MESSAGE_ARRIVE_TIME = "ARRIVE_TIME"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
# transactions
PRODUCER_GROUP = "PGROUP"
#: "true" on a half message, and still there on its copy once it is committed.
TRANSACTION_PREPARED = "TRAN_MSG"
TRANSACTION_ID = "__transactionId__"
CHECK_IMMUNITY_S = "CHECK_IMMUNITY_TIME_IN_SECONDS"
#: On a half that Apache RocketMQ put back, and on one that was parked.
CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
#: Ours: position of the half message that this record of TRANS_CHECK_MAX_TIME_TOPIC is a copy of.
PARKED_HALF = "ESC_PARKED"
#: Ours, on what decides halves: how each was decided, and by whom (transaction/records.py).
DECISIONS = "ESC_DECISIONS"
DECIDERS = "ESC_DECIDERS"
#: Ours: position of the parked record that this one releases, so that recovery knows it went out.
SOURCE = "ESC_SOURCE"

# timers (MessageConst): asked for by the sender
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_DELETE = "TIMER_DEL_UNIQKEY"
#: ... and written by the broker: start of the wheel's second, how often RocketMQ put it back, when it left
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_ROLLS = "TIMER_ROLL_TIMES"
TIMER_LEFT = "TIMER_DEQUEUE_MS"
TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
TIMER_DEL_MS = "TIMER_DEL_MS"
TIMER_ROLL_LABEL = "TIMER_ROLL_LABEL"
# ours, asked for by the sender: a business key, what to do where it is taken, whether the past is refused
SCHEDULE_KEY = "ESC_SCHEDULE_KEY"
ON_CONFLICT = "ESC_ON_CONFLICT"
REJECT_PAST = "ESC_REJECT_PAST"
#: Ours, on a half: its commit cancels or moves the timer of that schedule key, and shows no message.
TIMER_ACT = "ESC_TIMER_ACT"
#: Ours, on the record that the commit of a moving half leaves: the moment it asks for, ms.
MOVED = "ESC_MOVED"
#: Ours: the exact moment a timer is due, ms.
DUE_MS = "ESC_DUE_MS"
#: Ours: position of the timer that this one takes the place of; of the one that this record cancels, and why.
REPLACES = "ESC_REPLACES"
CANCELS = "ESC_CANCELS"
REASON = "ESC_REASON"
#: Ours, on a dead letter that a handler gave up by itself: why.
DEAD_REASON = "ESC_DEAD_REASON"
#: Ours, on a delete that a recall wrote: until when (ms) no message of that topic and unique key may come out.
RECALLED = "ESC_RECALLED"
#: Ours: position of a timer that is over already; the record tells only Apache RocketMQ so.
ECHO = "ESC_ECHO"
#: When a message was handed out first by a pop; which group a copy for another try is for (MessageConst).
FIRST_POP_TIME = "1ST_POP_TIME"
ORIGIN_GROUP = "ORIGIN_GROUP"
#: The handle that a popped message has for its consumer: in copies that are made for it, never in the log.
POP_HANDLE = "POP_CK"
POP_CK_OFFSET = "POP_CK_OFFSET"
#: Ours: which popped message this record is the next try of, or the dead letter (pop/revive.py).
POPPED = "ESC_POPPED"
#: Written by the broker alone: what a client sends under these names (it may pass on a message it received) is dropped,
#: or it could make recovery believe that a parked message went out, or a consumer acknowledge another message.
RESERVED = frozenset({SOURCE, DUE_MS, REPLACES, CANCELS, MOVED, RECALLED, ECHO, POPPED, POP_HANDLE})

#: Properties that mean something to client or broker (MessageConst.STRING_HASH_SET of 5.5.0): not for users.
# fmt: off
SYSTEM_PROPERTIES = frozenset(
    {
        KEYS, TAGS, WAIT, DELAY, RETRY_TOPIC, REAL_TOPIC, REAL_QUEUE_ID, TRANSACTION_PREPARED, PRODUCER_GROUP,
        MIN_OFFSET, MAX_OFFSET, BUYER_ID, ORIGIN_MESSAGE_ID, TRANSFER_FLAG, CORRECTION_FLAG, MQ2_FLAG,
        RECONSUME_TIME, MSG_REGION, TRACE_SWITCH, UNIQUE_KEY, EXTEND_UNIQ_INFO, MAX_RECONSUME_TIMES,
        CONSUME_START_TIMESTAMP, PREPARED_QUEUE_OFFSET, CHECK_TIMES, CHECK_IMMUNITY_S, INSTANCE_ID,
        CORRELATION_ID, MESSAGE_REPLY_TO_CLIENT, MESSAGE_TTL, REPLY_MESSAGE_ARRIVE_TIME, PUSH_REPLY_TIME,
        CLUSTER, MESSAGE_TYPE, INNER_MULTI_QUEUE_OFFSET, INNER_MULTI_DISPATCH, POP_HANDLE, POP_CK_OFFSET,
        FIRST_POP_TIME, SHARDING_KEY, TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, TIMER_ENQUEUE_MS,
        TIMER_LEFT, TIMER_ROLLS, TIMER_OUT_MS, TIMER_DELETE, TIMER_DEL_MS, TIMER_ROLL_LABEL, CRC_PROPERTY,
        DLQ_ORIGIN_TOPIC, DLQ_ORIGIN_MESSAGE_ID, TRANSACTION_ID, INNER_BASE, INNER_NUM,
    }
)
# fmt: on


_DELAY_MARKS = tuple(f"\x02{name}\x01" for name in (DELAY, TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS))


def is_delayed(framed: str) -> bool:
    """Tell whether properties in stored form, each behind a \\x02, say that the message is to come out later."""
    return any(mark in framed for mark in _DELAY_MARKS)


def parse_properties(raw: bytes) -> dict[str, str]:
    """Return properties as a dict; a missing final separator is fine. Raises InvalidProperties."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidProperties(f"The properties are not UTF-8 at byte {error.start}.") from None
    properties: dict[str, str] = {}
    for pair in text.split("\x02"):
        name, separator, value = pair.partition("\x01")
        if separator:
            properties[name] = value
        elif pair:
            raise InvalidProperties(f"The property {pair[:60]!r} has no value separator (\\x01).")
    return properties


def format_properties(properties: Mapping[str, str]) -> bytes:
    """Return properties in stored form, each ended by \\x02. Raises InvalidProperties for separators inside.

    A value may hold \\x01: a reader splits at the first one, and RocketMQ's clients may send such a value.
    """
    for name, value in properties.items():
        if "\x01" in name or "\x02" in name or "\x02" in value or not name:
            raise InvalidProperties(f"The property {name[:60]!r} is empty or holds a separator (\\x01, \\x02).")
    try:
        return "".join([f"{name}\x01{value}\x02" for name, value in properties.items()]).encode()
    except UnicodeEncodeError:
        raise InvalidProperties("A property holds half a surrogate pair, which is not text.") from None
