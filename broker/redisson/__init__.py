"""Redisson's delayed queues, shared with Java: the same keys, the same bytes, from Python."""

from __future__ import annotations

from .codecs import BytesCodec, Codec, Packing, StringCodec, codec_named
from .errors import RedissonError
from .jackson import JsonJacksonCodec, TypedJsonJacksonCodec
from .java_codecs import JavaObject, Long
from .queue import DelayedQueue
from .values import Receipt

__all__ = [
    "BytesCodec",
    "Codec",
    "DelayedQueue",
    "JavaObject",
    "JsonJacksonCodec",
    "Long",
    "Packing",
    "Receipt",
    "RedissonError",
    "StringCodec",
    "TypedJsonJacksonCodec",
    "codec_named",
]
