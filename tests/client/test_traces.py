"""What clients with tracing tell: read from bodies as RocketMQ's clients write them, found by a message's id."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.client import AsyncAdmin, AsyncProducer, Trace
from broker.rocketmq.topics import TRACE_TOPIC
from broker.rocketmq.traces import read_traces

ID = "7F00000100002A139A0F0B5C1B2C0000"
PUB = f"Pub\x011700000000000\x01Region\x01shop\x01orders\x01{ID}\x01created\x014711\x01127.0.0.1:10911\x0112\x015\x010"
BEFORE = f"SubBefore\x011700000000100\x01DefaultRegion\x01billing\x01R1\x01{ID}\x011\x014711"
AFTER = f"SubAfter\x01R1\x01{ID}\x017\x01true\x014711\x010"


def body(*events: str) -> bytes:
    return "".join(f"{event}\x02" for event in events).encode()


def test_events_of_newer_and_older_clients_are_read() -> None:
    assert read_traces(body(f"{PUB}\x01OFFSETID\x01true\x0110.0.0.9", f"{PUB}\x01false", PUB)) == [
        Trace("sent", ID, 1700000000000, "shop", "orders", "10.0.0.9", 5, True),
        Trace("sent", ID, 1700000000000, "shop", "orders", None, 5, False),
        Trace("sent", ID, 1700000000000, "shop", "orders", None, 5, None),
    ]
    assert read_traces(body(f"{BEFORE}\x0110.0.0.9", BEFORE, f"{AFTER}\x011700000000107\x01billing", AFTER)) == [
        Trace("delivered", ID, 1700000000100, "billing", None, "10.0.0.9", retries=1, request_id="R1"),
        Trace("delivered", ID, 1700000000100, "billing", None, None, retries=1, request_id="R1"),
        Trace("handled", ID, 1700000000107, "billing", took_ms=7, succeeded=True, request_id="R1"),
        Trace("handled", ID, None, None, took_ms=7, succeeded=True, request_id="R1"),
    ]
    place = f"1700000000200\x01DefaultRegion\x01shop\x01orders\x01{ID}"
    ended = f"EndTransaction\x01{place}\x01\x01\x01127.0.0.1:10911\x012\x01T1\x01COMMIT_MESSAGE\x01true"
    assert read_traces(body(ended, f"Recall\x01{place}\x01true")) == [
        Trace("ended", ID, 1700000000200, "shop", "orders", state="COMMIT_MESSAGE"),
        Trace("recalled", ID, 1700000000200, "shop", "orders", succeeded=True),
    ]


@given(st.binary(max_size=200) | st.text(st.sampled_from("Pub\x01\x02SubAfter0"), max_size=80).map(str.encode))
def test_what_cannot_be_read_is_left_out(said: bytes) -> None:
    assert read_traces(said + b"\x02" + body(PUB))[-1].message_id == ID


async def test_the_events_of_one_message_are_found(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    other = ID[:-1] + "1"
    await producer.send(TRACE_TOPIC, body(f"{AFTER}\x011700000000107\x01billing"), keys=[ID])
    await producer.send(TRACE_TOPIC, body(PUB, PUB.replace(ID, other)), keys=[ID, other])
    await producer.send(TRACE_TOPIC, body(BEFORE), keys=[ID])
    await producer.send(TRACE_TOPIC, body(BEFORE), keys=[ID])
    assert [event.kind for event in await admin.traces(ID)] == ["sent", "delivered", "handled"]
    assert [event.kind for event in await admin.traces(other)] == ["sent"]
    assert await admin.traces("nobody") == []
    assert await admin.traces(ID, topic="nowhere") == []
