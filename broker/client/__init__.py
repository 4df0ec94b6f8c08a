"""The public Python API: send, consume, ask. Works with Escapement and with Apache RocketMQ.

Everything that most programs need is here. Beside it are public:

- `errors`: every error, as one tree.
- `handlers`: how a handler is called, for programs that run the handlers of others.
- `names`: what topics, groups, tags, keys and properties may look like.
- `credentials`: signatures and TLS.
- `admin`, `timers`, `transactions`: what brokers answer an `Admin`.
- `remoting`: requests for which no client here has a method.

Modules with a leading underscore are the client's own.
"""

from __future__ import annotations

from ..rocketmq.traces import Trace
from ._admin import AsyncAdmin
from ._consumer import DEFAULT_HANDLERS, DRAIN_S, SUSPEND_BOUNDS_MS, AsyncConsumer, Handler
from ._events import event
from ._faces import StopSignals
from ._lite_pull import AsyncLitePullConsumer
from ._orderly import SUSPEND_MS
from ._outgoing import Body, MessageOptions, Outgoing, Timing, prepare
from ._producer import AsyncProducer
from ._simple import AsyncSimpleConsumer, Receipt, Received, SimpleConsumers, read_receipt
from ._sync_admin import Admin
from ._sync_clients import Consumer, LitePullConsumer, Producer, SimpleConsumer, Timers, TransactionProducer
from ._timers import AsyncTimers, timer_half
from ._trace_events import trace_topic
from ._tracing import with_trace
from ._transaction import Decision, Half, TransactionListener, TransactionResult, as_half, plain_sends
from ._transaction_producer import AsyncTransactionProducer
from ._types import ALL, Message, MessageQueue, SendResult, Sql, subscription
from ._verdicts import DeadLetter, HandlerTimeout, RetryIn
from .credentials import Access, Tls, remember
from .errors import (
    BrokerRefused,
    BrokerUnreachable,
    ClientClosed,
    ClientError,
    HalfNotSafe,
    InvalidArgument,
    NoBroker,
    NoSuchQueue,
    NotHeld,
    NotSupported,
    NotThisEvent,
    NotWritable,
    RouteNotFound,
    ScheduleKeyTaken,
    Timeout,
    TimerLimit,
    TimerPast,
    TimerTooFar,
    UsedAfterFork,
)
from .timers import TimerTarget

__all__ = [
    "ALL",
    "DEFAULT_HANDLERS",
    "DRAIN_S",
    "SUSPEND_BOUNDS_MS",
    "SUSPEND_MS",
    "Access",
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncLitePullConsumer",
    "AsyncProducer",
    "AsyncSimpleConsumer",
    "AsyncTimers",
    "AsyncTransactionProducer",
    "Body",
    "BrokerRefused",
    "BrokerUnreachable",
    "ClientClosed",
    "ClientError",
    "Consumer",
    "DeadLetter",
    "Decision",
    "Half",
    "HalfNotSafe",
    "Handler",
    "HandlerTimeout",
    "InvalidArgument",
    "LitePullConsumer",
    "Message",
    "MessageOptions",
    "MessageQueue",
    "NoBroker",
    "NoSuchQueue",
    "NotHeld",
    "NotSupported",
    "NotThisEvent",
    "NotWritable",
    "Outgoing",
    "Producer",
    "Receipt",
    "Received",
    "RetryIn",
    "RouteNotFound",
    "ScheduleKeyTaken",
    "SendResult",
    "SimpleConsumer",
    "SimpleConsumers",
    "Sql",
    "StopSignals",
    "Timeout",
    "TimerLimit",
    "TimerPast",
    "TimerTarget",
    "TimerTooFar",
    "Timers",
    "Timing",
    "Tls",
    "Trace",
    "TransactionListener",
    "TransactionProducer",
    "TransactionResult",
    "UsedAfterFork",
    "as_half",
    "event",
    "plain_sends",
    "prepare",
    "read_receipt",
    "remember",
    "subscription",
    "timer_half",
    "trace_topic",
    "with_trace",
]
