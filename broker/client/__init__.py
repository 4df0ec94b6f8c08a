"""The public Python API: send, consume, ask. Works with Escapement and with Apache RocketMQ."""

from __future__ import annotations

from .admin import Admin
from .asking import AsyncAdmin
from .consumer import Consumer
from .consuming import AsyncConsumer
from .errors import BrokerRefused, BrokerUnreachable, ClientError, InvalidArgument, NotSupported, RouteNotFound, Timeout
from .outgoing import Outgoing, prepare
from .producer import Producer
from .producing import AsyncProducer
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
    "SendResult",
    "Timeout",
    "prepare",
]
