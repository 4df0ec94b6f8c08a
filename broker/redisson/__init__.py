"""Redisson's delayed queues, shared with Java: the same keys, the same bytes, from Python."""

from __future__ import annotations

from .codecs import BytesCodec as BytesCodec
from .codecs import Codec as Codec
from .codecs import StringCodec as StringCodec
from .codecs import codec_named as codec_named
from .errors import RedissonError as RedissonError
from .jackson import JsonJacksonCodec as JsonJacksonCodec
from .jackson import TypedJsonJacksonCodec as TypedJsonJacksonCodec
from .javavalues import JavaObject as JavaObject
from .javavalues import Long as Long
from .packing import Packing as Packing
from .queue import DelayedQueue as DelayedQueue
from .waiting import Receipt as Receipt
