"""The public Python API: send, consume, ask. Works with Escapement and with Apache RocketMQ."""

from __future__ import annotations

from ..rocketmq.traces import Trace
from .admin import Admin
from .admin_async import AsyncAdmin
from .consumer import Consumer
from .consumer_async import AsyncConsumer
from .credentials import Access, Tls
from .errors import (
    BrokerRefused,
    BrokerUnreachable,
    ClientClosed,
    ClientError,
    InvalidArgument,
    NoBroker,
    NoSuchQueue,
    NotHeld,
    NotSupported,
    NotWritable,
    RouteNotFound,
    ScheduleKeyTaken,
    Timeout,
    TimerLimit,
    TimerPast,
    TimerTooFar,
    UsedAfterFork,
)
from .lite_pull import LitePullConsumer
from .lite_pull_async import AsyncLitePullConsumer
from .outgoing import Outgoing, prepare
from .producer import Producer
from .producer_async import AsyncProducer
from .simple import SimpleConsumer
from .simple_async import AsyncSimpleConsumer, Receipt, Received, SimpleConsumers, read_receipt
from .subscription import Sql
from .timers import TimerTarget
from .transaction import Decision, Half, HalfNotSafe, TransactionListener, TransactionResult
from .transaction_producer import TransactionProducer
from .transaction_producer_async import AsyncTransactionProducer
from .types import Message, MessageQueue, SendResult

__all__ = [
    "Access",
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncLitePullConsumer",
    "AsyncProducer",
    "AsyncSimpleConsumer",
    "AsyncTransactionProducer",
    "BrokerRefused",
    "BrokerUnreachable",
    "ClientClosed",
    "ClientError",
    "Consumer",
    "Decision",
    "Half",
    "HalfNotSafe",
    "InvalidArgument",
    "LitePullConsumer",
    "Message",
    "MessageQueue",
    "NoBroker",
    "NoSuchQueue",
    "NotHeld",
    "NotSupported",
    "NotWritable",
    "Outgoing",
    "Producer",
    "Receipt",
    "Received",
    "RouteNotFound",
    "ScheduleKeyTaken",
    "SendResult",
    "SimpleConsumer",
    "SimpleConsumers",
    "Sql",
    "Timeout",
    "TimerLimit",
    "TimerPast",
    "TimerTarget",
    "TimerTooFar",
    "Tls",
    "Trace",
    "TransactionListener",
    "TransactionProducer",
    "TransactionResult",
    "UsedAfterFork",
    "prepare",
    "read_receipt",
]
