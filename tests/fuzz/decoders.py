"""Every decoder of bytes or texts that others write, with the errors it may answer them with.

One that is not here is found by a house test. A decoder is called with what its corpus holds, damaged in many ways: any
other error than those of its row is a fault, and so is an answer that takes long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec

from broker.backup import manifest, pipe
from broker.celery import envelope
from broker.client import _answers, _events, _pipeline, _reader, _simple
from broker.client.errors import ClientError
from broker.engine import config, message_header
from broker.engine.pop import records as pop_records
from broker.engine.pop import recovery as pop_recovery
from broker.engine.pop import revive
from broker.engine.tables import json_file
from broker.engine.timer import state
from broker.engine.transaction import records as op_records
from broker.engine.transaction import recovery as transaction_recovery
from broker.engine.transaction.halves import OpenHalves, ParkedHalves
from broker.namesrv import registration
from broker.outbox import decisions
from broker.redisson import codecs, java_codecs
from broker.redisson.errors import RedissonError
from broker.rocketmq import acl, frame, ids, message, properties, routes, sends, sql92, sql92_nodes, traces
from broker.rocketmq.errors import BrokerError, RemotingError
from broker.server.incoming import Incoming
from broker.server.processors import clients, timers
from console.features.alerts import units
from console.features.alerts.webhooks import format as webhook_format
from console.features.checkback import allowed, worker
from console.features.checkback.request import NoAnswer
from console.features.dead_letters import shapes
from console.features.messages import descriptor_sets, protobuf_text
from console.operations import typed_moments
from console.rest import identifiers
from console.rest.errors import RequestError
from console.site import chosen, merged, parsing
from spark import decode as spark_decode
from spark.columns import Selection
from tests.console.messages.proto_shop import ORDER, SHOP

CORPUS = Path(__file__).parents[1] / "data" / "corpus"


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder: the function that a house test looks for, how it is called, and what it may raise."""

    function: Callable[..., Any]
    call: Callable[[bytes], object]
    errors: tuple[type[Exception], ...] = ()

    @property
    def name(self) -> str:
        """The module and the function, as the corpus is named."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    def corpus(self) -> list[bytes]:
        """Return what is known to be read, or to have failed once."""
        return [bytes.fromhex(line) for line in (CORPUS / f"{self.name}.hex").read_text().split()]


def of_bytes(function: Callable[[bytes], object], *errors: type[Exception]) -> Decoder:
    """A decoder of bytes."""
    return Decoder(function, function, errors)


def of_text(function: Callable[[str], object], *errors: type[Exception]) -> Decoder:
    """A decoder of a text, which may hold what is no character."""
    return Decoder(function, lambda raw: function(raw.decode("utf-8", "surrogateescape")), errors)


def _all(function: Callable[[bytes], Any]) -> Callable[[bytes], object]:
    return lambda raw: list(function(raw))


def _header(raw: bytes) -> object:
    return sends.read_send_header(frame.decode(raw).ext)


def _registration(raw: bytes) -> object:
    asked = frame.decode(raw)
    return registration.read_registration(asked.ext, asked.body)


def _members(raw: bytes) -> object:
    return [(name, sum(map(len, content))) for name, content in pipe.members_of(BytesIO(raw))]


def _celery(raw: bytes) -> object:
    read = envelope.raw_of(_read_message(raw), is_again=True)
    return envelope.parcel_of(read, 0)


def _read_message(raw: bytes) -> Any:
    return replace(_reader.read_record(_RECORD), body=raw)


def _each_codec(raw: bytes) -> object:
    shown = [codecs.show(raw)]
    for name in NAMES_OF_CODECS:
        shown.append(codecs.show(raw, codecs.codec_named(name)))
    return shown


def _incoming(raw: bytes) -> object:
    buffer = Incoming()
    return [buffer.feed(raw[at : at + 100]) for at in range(0, len(raw), 100)]


def _op(raw: bytes) -> object:
    return op_records.read_op(raw, {"TAGS": "d"}), op_records.read_op(raw, {"TAGS": "esc"})


def _snapshot(raw: bytes) -> object:
    return transaction_recovery.parse(raw, OpenHalves(), ParkedHalves())


_RECORD = bytes.fromhex((CORPUS / "broker.rocketmq.message.decode.hex").read_text().split()[0])
NAMES_OF_CODECS = ("StringCodec", "JsonJacksonCodec", "TypedJsonJacksonCodec", "Kryo5Codec", "MarshallingCodec")


@_events.event("fuzzed")
class Fuzzed(msgspec.Struct):
    """An event with a field of each kind."""

    number: int
    text: str = ""
    more: dict[str, list[int]] = {}


DECODERS = (
    # the wire
    of_bytes(frame.decode, RemotingError),
    Decoder(Incoming.feed, _incoming, (RemotingError,)),
    Decoder(frame.FrameBuffer.feed, lambda raw: frame.FrameBuffer().feed(raw), (RemotingError,)),
    Decoder(sends.read_send_header, _header, (RemotingError, BrokerError)),
    of_bytes(sends.read_json_send),
    of_bytes(sends.read_signed_json_send),
    of_bytes(sends.split_batch, BrokerError, RemotingError),
    Decoder(registration.read_registration, _registration, (RemotingError, BrokerError)),
    of_bytes(timers.read_steering, RemotingError, BrokerError),
    of_bytes(timers.read_target, RemotingError, BrokerError),
    of_text(ids.read_handle, ValueError),
    of_text(ids.read_pop_handle, RemotingError),
    of_text(message.parse_offset_message_id, ValueError),
    of_text(acl.parse_resource, acl.InvalidAccess),
    of_text(acl.address_of),
    of_text(sql92.parse, sql92_nodes.BadExpression),
    of_bytes(traces.read_traces),
    # messages and stores
    of_bytes(message.decode, BrokerError),
    of_bytes(properties.parse_properties, BrokerError),
    of_bytes(message_header.read_facts, BrokerError),
    of_bytes(json_file.parse, ValueError),
    of_text(config.parse_delay_levels, BrokerError),
    Decoder(pop_records.read_page, _all(pop_records.read_page), (ValueError,)),
    of_bytes(pop_records.read_key, ValueError),
    Decoder(pop_recovery.parse, _all(pop_recovery.parse), (ValueError,)),
    of_text(revive.read_source),
    of_bytes(state.unpack_chunks, ValueError),
    Decoder(op_records.read_op, _op),
    of_bytes(op_records.read_checks),
    of_bytes(op_records.read_resumed),
    Decoder(transaction_recovery.parse, _snapshot, (ValueError,)),
    Decoder(manifest.parse, lambda raw: manifest.parse(raw, "here"), (BrokerError,)),
    Decoder(pipe.members_of, _members, (BrokerError,)),
    Decoder(spark_decode.row_of, lambda raw: spark_decode.row_of(raw, 0, Selection())),
    # what clients are answered
    of_bytes(routes.topic_route, RemotingError),
    of_bytes(clients.queue_table),
    of_bytes(_answers.read_json, ClientError),
    of_bytes(_answers.read_object, ClientError),
    Decoder(_events.read_event, lambda raw: _events.read_event(raw, {"event": "fuzzed"}), (ClientError,)),
    of_bytes(_pipeline.read_stored),
    Decoder(_reader.split_records, lambda raw: list(_reader.split_records(raw)), (ClientError,)),
    of_bytes(_reader.read_record, ClientError),
    of_bytes(_reader.read_delivery, ClientError),
    of_text(_simple.read_receipt, ClientError),
    Decoder(envelope.raw_of, _celery),
    of_text(decisions.read_origin),
    # Redis
    Decoder(codecs.show, _each_codec),
    of_bytes(codecs.detect),
    of_bytes(codecs.unpack, RedissonError),
    of_bytes(java_codecs.read_kryo, ValueError, java_codecs.Unclear),
    of_bytes(java_codecs.read_marshalling, ValueError, java_codecs.Unclear),
    of_bytes(java_codecs.read_serialization, ValueError, java_codecs.Unclear),
    # addresses and fields of the console and of REST
    of_text(allowed.read_address, allowed.AddressRefused),
    of_text(allowed.read_origin, allowed.AddressRefused),
    of_bytes(worker.read_decision, NoAnswer),
    of_bytes(descriptor_sets.read_set, descriptor_sets.SetRefused),
    Decoder(
        protobuf_text.MessageReader.read,
        lambda raw: protobuf_text.reader_of(SHOP, ORDER).read(raw, 1_000),
        (protobuf_text.NotThatType,),
    ),
    of_text(shapes.read_after),
    of_text(shapes.read_place),
    of_text(identifiers.parse, RequestError),
    of_text(chosen.split),
    of_text(merged.read_cursor),
    of_text(parsing.read_moment, parsing.NoMoment),
    of_text(parsing.read_span),
    of_text(typed_moments.bare_span_ms),
    Decoder(
        units.read, lambda raw: [units.read(what, raw.decode("utf-8", "surrogateescape")) for what in units.UNIT_OF]
    ),
    of_bytes(webhook_format.read_object),
)
