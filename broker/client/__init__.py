"""The public Python API: send, consume, ask. Works with Escapement and with Apache RocketMQ."""

from __future__ import annotations

from .admin import Admin
from .asking import AsyncAdmin
from .consumer import Consumer
from .consuming import AsyncConsumer
from .errors import (
    BrokerRefused,
    BrokerUnreachable,
    ClientError,
    InvalidArgument,
    NotSupported,
    RouteNotFound,
    ScheduleKeyTaken,
    Timeout,
    TimerLimit,
    TimerPast,
    TimerTooFar,
)
from .outgoing import Outgoing, prepare
from .producer import Producer
from .producing import AsyncProducer
from .timers import TimerTarget
from .types import Message, SendResult

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "BrokerRefused",
    "BrokerUnreachable",
    "ClientError",
    "Consumer",
    "InvalidArgument",
    "Message",
    "NotSupported",
    "Outgoing",
    "Producer",
    "RouteNotFound",
    "ScheduleKeyTaken",
    "SendResult",
    "Timeout",
    "TimerLimit",
    "TimerPast",
    "TimerTarget",
    "TimerTooFar",
    "prepare",
]
