"""Redisson's delayed queues, shared with Java: the same keys, the same bytes, from Python."""

from __future__ import annotations

from .codecs import BytesCodec as BytesCodec
from .codecs import Codec as Codec
from .codecs import Packing as Packing
from .codecs import StringCodec as StringCodec
from .codecs import codec_named as codec_named
from .errors import RedissonError as RedissonError
from .jackson import JsonJacksonCodec as JsonJacksonCodec
from .jackson import TypedJsonJacksonCodec as TypedJsonJacksonCodec
from .java_codecs import JavaObject as JavaObject
from .java_codecs import Long as Long
from .queue import DelayedQueue as DelayedQueue
from .values import Receipt as Receipt
