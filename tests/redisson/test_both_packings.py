"""Members of old clients that look like new ones: what is read and written beside them is old all the same."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import redis

from broker.client import Message, Outgoing, SendResult
from broker.client.errors import ClientError
from broker.redisson import BytesCodec, DelayedQueue
from broker.redisson.codecs import Packing, detect, pack
from broker.redisson.queue import move_due
from broker.redisson.repair import begin_import, deliver_now, move_to
from broker.redisson.survey import find_packed, page, survey
from broker.redisson.to_topic import Outbound, make_reliable, read_mode

FAR = 10**13
#: Fits both: as a new one it would be the empty value.
BOTH = pack(b"\x00", b"\x08" + bytes(7), Packing.OLD)
#: Its random part begins with 7, which as a length leads to the same value.
SEVEN = pack(b"seven", b"\x07random.", Packing.OLD)
PLAIN = pack(b"plain", b"-random-", Packing.OLD)


def put(client: redis.Redis, queue: DelayedQueue, members: Sequence[bytes], due: int = FAR) -> None:
    """As Java's offers leave them."""
    client.zadd(queue.keys.timeout.decode(), {member: due + number for number, member in enumerate(members)})
    client.rpush(queue.keys.waiting.decode(), *members)


@pytest.fixture
def queue(client: redis.Redis) -> DelayedQueue:
    return DelayedQueue("orders", client, codec=BytesCodec())


def test_an_offer_after_a_random_part_that_begins_with_seven_is_old(queue: DelayedQueue, client: redis.Redis) -> None:
    """A new one there would stop the transfer of every old client."""
    put(client, queue, [SEVEN])
    assert queue.offer(b"next", delay=0).packing is Packing.OLD
    assert survey(queue).packings == [Packing.OLD]
    assert list(find_packed(queue, Packing.NEW)) == []


@pytest.mark.parametrize("others", [[PLAIN], [SEVEN]], ids=["plain", "seven"])
def test_what_fits_both_is_read_as_the_rest_of_the_queue(
    queue: DelayedQueue, client: redis.Redis, others: list[bytes]
) -> None:
    put(client, queue, [BOTH, *others])
    assert queue.contains(b"\x00") and not queue.contains(b"")
    watcher = DelayedQueue("orders", client, codec=BytesCodec(), read_only=True)
    assert watcher.contains(b"\x00") and not watcher.contains(b"")
    assert queue.peek() == b"\x00" and queue.read_all()[0] == b"\x00"
    found = survey(queue)
    assert (found.packings, found.foreign) == ([Packing.OLD], None)
    assert next((each.packing, each.value) for each in page(queue).items) == (Packing.OLD, b"\x00")
    assert not queue.remove(b"") and queue.remove(b"\x00")


def test_it_is_found_in_a_long_queue(queue: DelayedQueue, client: redis.Redis) -> None:
    put(client, queue, [pack(b"v", b"%8d" % number, Packing.OLD) for number in range(600)])
    put(client, queue, [BOTH])
    put(client, queue, [pack(b"v", b"%8d" % number, Packing.OLD) for number in range(600, 1200)])
    assert queue.contains(b"\x00") and not queue.contains(b"")
    assert queue.remove(b"\x00") and not queue.contains(b"\x00")


@pytest.mark.parametrize("how", ["transfer", "deliver", "poll"])
def test_its_value_comes_out_whole(queue: DelayedQueue, client: redis.Redis, how: str) -> None:
    put(client, queue, [BOTH, PLAIN], due=1)
    match how:
        case "transfer":
            assert move_due(queue, 1).count == 1
        case "deliver":
            assert deliver_now(queue, page(queue).items[0].handle)
        case "poll":
            assert queue.poll_first_offered() == b"\x00"
            return
    assert queue.poll() == b"\x00"


def test_alone_it_is_what_the_queue_is_said_to_be(client: redis.Redis) -> None:
    said = DelayedQueue("orders", client, codec=BytesCodec(), packing="old")
    put(client, said, [BOTH], due=1)
    assert said.contains(b"\x00") and said.peek() == b"\x00" and said.read_all() == [b"\x00"]
    assert move_due(said, 1).count == 1 and said.poll() == b"\x00"


def test_moved_to_a_new_queue_it_is_packed_anew(queue: DelayedQueue, client: redis.Redis) -> None:
    put(client, queue, [BOTH, PLAIN])
    other = DelayedQueue("bills", client, codec=BytesCodec())
    put(client, other, [pack(b"new", b"-random-")])
    assert move_to(queue, page(queue).items[0].handle, other)
    assert other.read_all() == [b"new", b"\x00"]
    moved = client.lindex(other.keys.waiting.decode(), -1)
    assert isinstance(moved, bytes) and len(moved) == 18


def test_offers_of_nothing_never_fit_both(queue: DelayedQueue) -> None:
    """Their random part is a counter: every 256th one would."""
    receipts = queue.offer_many([b""] * 600, at=FAR)
    assert all(detect(receipt.member, Packing.OLD) is Packing.NEW for receipt in receipts)
    members = [receipt.member for receipt in receipts]
    assert members == sorted(set(members))


class Recorder:
    """Takes every message, and has none."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.properties: list[str] = []

    def send_each(
        self, topic: str, messages: Sequence[Outgoing], *, timeout_ms: int = 5000
    ) -> list[SendResult | ClientError]:
        self.bodies += [message.body for message in messages]
        self.properties += [message.properties for message in messages]
        return [SendResult("id", "id", topic, "broker", 0, 0) for _ in messages]

    def messages_by_key(self, topic: str, key: str, max_count: int = 64) -> list[Message]:
        return []


def test_on_its_way_to_a_topic_it_keeps_its_value(queue: DelayedQueue, client: redis.Redis) -> None:
    """In the set of what is under way there is no queue that would tell."""
    put(client, queue, [BOTH, PLAIN], due=1)
    make_reliable(queue, "bills")
    recorder = Recorder()
    Outbound(recorder, recorder).move(queue, read_mode(queue), 10, 0, scan=False)
    assert recorder.bodies == [b"\x00", b"plain"]
    assert queue.size() == 0 and read_mode(queue).sending == 0


def test_a_moment_of_a_part_of_a_millisecond_becomes_no_earlier_one(queue: DelayedQueue, client: redis.Redis) -> None:
    """Scores are doubles; who writes them by hand may write such a one."""
    client.zadd(queue.keys.timeout.decode(), {PLAIN: FAR + 0.5})
    client.rpush(queue.keys.waiting.decode(), PLAIN)
    begin_import(queue, "bills")
    recorder = Recorder()
    Outbound(recorder, recorder).move(queue, read_mode(queue), 10, 0, scan=False)
    (properties,) = recorder.properties
    assert f"TIMER_DELIVER_MS\x01{FAR + 1}\x02" in properties
