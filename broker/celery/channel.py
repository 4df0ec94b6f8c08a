"""A kombu channel: what is declared, sent and received, in RocketMQ's words.

Queues that are kept are topics, popped in the name of one consumer group. A queue of one process alone (exclusive, or
one that goes with its reader and is not durable or has a UUID for its name: replies, results of ``rpc://``, remote
control, events) is read from the end of a topic that many share, and a queue that is bound to a fan-out exchange is,
too.
"""

from __future__ import annotations

import logging
import re
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from queue import Empty
from typing import Any

from kombu.transport import virtual

from ..client import ClientError
from ..client.remoting import forks
from .envelope import Raw, is_expired, is_text, parcel_of, raw_of
from .intake import CLOSE_S, Delivery, Intake
from .link import Declared, Link
from .naming import HIGHEST_PRIORITY, is_reply_address, reply_tag, routed_tag, tag_of
from .steering import asked_to_revoke, cancel_all

logger = logging.getLogger(__name__)

#: Celery's exchange of events; nobody waits until the broker has one.
EVENTS = "celeryev"
_CLOSE_MS = int(CLOSE_S * 3_000)
#: kombu's own classes; their types are not those of what its transports do
_kombu: Any = virtual


class QoS(_kombu.QoS):  # type: ignore[misc] # a base of no known type
    """What a channel may hold. The broker knows what is held, so nothing is to be restored from here."""

    def __init__(self, channel: Channel, prefetch_count: int = 0) -> None:
        self.channel = channel
        self._delivered: OrderedDict[str, Any] = OrderedDict()
        self.prefetch_count = prefetch_count

    @property
    def prefetch_count(self) -> int:
        """Most messages held at a time, 0 for no limit."""
        return self.channel.intake.limit

    @prefetch_count.setter
    def prefetch_count(self, count: int) -> None:
        self.channel.intake.set_limit(count or 0)

    def can_consume(self) -> bool:
        """Tell whether more may be received; the limit is looked at where it is. Celery puts another in its place."""
        return True

    def can_consume_max_estimate(self) -> int | None:
        """Return how many more may be received, None without a limit."""
        return max(self.prefetch_count - len(self._delivered), 0) if self.prefetch_count else None

    def append(self, message: Any, delivery_tag: str) -> None:
        """Note what the program has and did not acknowledge."""
        self._delivered[delivery_tag] = message

    def get(self, delivery_tag: str) -> Any:
        """Return such a message."""
        return self._delivered[delivery_tag]

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge; may be called in any thread."""
        self._delivered.pop(delivery_tag, None)
        self.channel.intake.done(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Give back, to be redelivered immediately; or be done with it."""
        if not requeue:
            self.ack(delivery_tag)
            return
        message = self._delivered.pop(delivery_tag, None)
        self.channel.give_back(delivery_tag, message)

    def restore_unacked(self) -> list[Any]:
        """Give back all that the program did not acknowledge."""
        for tag in list(self._delivered):
            self.reject(tag, requeue=True)
        return []

    def restore_unacked_once(self, stderr: Any = None) -> None:
        """Nothing: closing the channel gives back what is held."""


class Channel(_kombu.Channel):  # type: ignore[misc] # a base of no known type
    """A channel of a connection."""

    QoS = QoS
    supports_fanout = True
    do_restore = False
    connection: Any
    closed: bool

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        self.link: Link = connection.link
        self._generation = forks.generation
        self._callbacks: dict[str, tuple[Callable[[Raw], object], bool]] = {}
        self._is_declaring = self._is_asking = False
        # neither keeps the other alive: what a program lets go of is collected
        arrived, gate = weakref.WeakMethod(connection.arrived), weakref.WeakMethod(self._can_consume)
        self.intake = Intake(self.link, lambda: _call(arrived), lambda: _call(gate) is not False)
        super().__init__(connection, **kwargs)
        # a program that lets go of a channel without closing it must not hold its messages for ever
        self._collected = weakref.finalize(self, _abandon, self.intake, self._generation)
        self._collected.atexit = False

    def _can_consume(self) -> bool:
        return bool(self.qos.can_consume())

    # declaring

    def exchange_declare(self, exchange: str | None = None, type: str = "direct", **kwargs: Any) -> None:  # noqa: A002 - kombu's name
        """Declare an exchange; that of events tells everybody, whichever type it is said to have."""
        super().exchange_declare(exchange, "fanout" if exchange == EVENTS else type, **kwargs)

    def queue_declare(self, queue: str | None = None, passive: bool = False, **kwargs: Any) -> Any:
        """Declare a queue; how much waits there is counted when only that is asked (`passive`)."""
        self._is_declaring, self._is_asking = not passive, passive
        try:
            return super().queue_declare(queue, passive=passive, **kwargs)
        finally:
            self._is_declaring = self._is_asking = False

    def _new_queue(self, queue: str, **options: Any) -> None:
        if self._is_asking and queue in self.link.declared:
            return
        arguments: Mapping[str, Any] = options.get("arguments") or {}
        is_brief = options.get("auto_delete") and (not options.get("durable") or is_reply_address(queue))
        is_own = bool(options.get("exclusive") or is_brief)
        highest = min(int(arguments.get("x-max-priority") or 0), HIGHEST_PRIORITY)
        ttl = arguments.get("x-message-ttl")
        known = self.link.declared.get(queue)
        declared = Declared(is_own, highest, None if ttl is None else int(ttl))
        if known is not None:
            declared.told = known.told
        self.link.declared[queue] = declared
        if is_own:
            self._run(self.link.listen(queue, self.link.names.replies, reply_tag(queue)))
        elif known is None or known.highest_priority != highest:
            self._run(self.link.make_queue(queue, highest))

    def prepare_queue_arguments(self, arguments: Mapping[str, Any] | None, **options: Any) -> dict[str, Any]:
        """Return the arguments of a queue with those that kombu's Queue has as its own."""
        own = {"max_priority": "x-max-priority", "message_ttl": "x-message-ttl"}
        known = {own[name]: value for name, value in options.items() if name in own and value is not None}
        if "x-message-ttl" in known:
            known["x-message-ttl"] = int(known["x-message-ttl"] * 1000)
        return {**(arguments or {}), **known}

    def _has_queue(self, queue: str, **options: Any) -> bool:
        if queue in self.link.declared:
            return True
        try:
            self._run(self.link.admin.route(self.link.names.queue(queue)))
        except ClientError:
            return False
        return True

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str | None, queue: str) -> None:
        declared = self.link.declared.setdefault(queue, Declared())
        if self.typeof(exchange).type == "fanout":
            declared.told[exchange] = _pattern(routing_key)
            self._run(self.link.listen(queue, self.link.names.fanout(exchange), None))
        elif declared.is_own:
            self._run(self.link.listen(queue, self.link.names.replies, routed_tag(exchange, routing_key)))

    def get_table(self, exchange: str) -> Any:
        """Return what is bound to an exchange, as far as this process knows."""
        return self.state.exchanges[exchange]["table"]

    def _delete(self, queue: str, exchange: str = "", *meta: Any, **options: Any) -> None:
        table = self.state.exchanges.get(exchange, {}).get("table", [])
        table[:] = [each for each in table if each[2] != queue]

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **options: Any) -> None:
        """Forget a queue, and remove its messages; its topic stays, for timers and for others."""
        declared = self.link.declared.get(queue, Declared())
        if if_empty and self._size(queue):
            return
        super().queue_delete(queue, if_unused=if_unused, **options)
        self.link.tails.forget(queue)
        if not declared.is_own and not if_empty:
            self._purge(queue)
        self.link.declared.pop(queue, None)

    def _size(self, queue: str) -> int:
        declared = self.link.declared.get(queue)
        if self._is_declaring or (declared is not None and declared.is_own):
            return 0
        return int(self._run(self.link.waiting(queue)))

    def _purge(self, queue: str) -> int:
        declared = self.link.declared.get(queue)
        return 0 if declared is not None and declared.is_own else int(self._run(self.link.purge(queue)))

    # sending

    def _inplace_augment_message(self, message: Raw, exchange: str, routing_key: str) -> None:
        # a body that is text already is stored as it is, for people and for other languages
        self.body_encoding = None if is_text(message.get("content-encoding")) else "base64"
        super()._inplace_augment_message(message, exchange, routing_key)

    def basic_publish(self, message: Raw, exchange: str, routing_key: str, **kwargs: Any) -> Any:
        """Send a message to the queues that the exchange leads to."""
        if exchange and self.typeof(exchange).type == "direct" and not self._lookup(exchange, routing_key):
            self._inplace_augment_message(message, exchange, routing_key)
            self._answer(routed_tag(exchange, routing_key), message)
            return None
        return super().basic_publish(message, exchange, routing_key, **kwargs)

    def _put(self, queue: str, message: Raw, **kwargs: Any) -> None:
        declared = self.link.declared.get(queue)
        if declared.is_own if declared is not None else is_reply_address(queue):
            self._answer(reply_tag(queue), message)
            return
        if declared is None:
            self._run(self.link.make_queue(queue))
        highest = declared.highest_priority if declared is not None else 0
        priority = min(self._get_message_priority(message), highest)
        self._send(self.link.send(self.link.names.queue(queue, priority), parcel_of(message)))

    def _put_fanout(self, exchange: str, message: Raw, routing_key: str, **kwargs: Any) -> None:
        parcel = parcel_of(message)
        revoked = asked_to_revoke(exchange, message)
        if revoked:
            self._cancel(revoked)
        tag = tag_of(routing_key or "") or "-"
        if exchange == EVENTS:
            self._run(self.link.begin_telling(exchange, tag, parcel))
        else:
            self._send(self.link.tell(exchange, tag, parcel))

    def _answer(self, tag: str, message: Raw) -> None:
        self._send(self.link.answer(tag, parcel_of(message)))

    def _cancel(self, task_ids: list[str]) -> None:
        try:
            self._run(cancel_all(self.link, task_ids))
        except ClientError as error:
            logger.warning("revoked tasks that are not due yet could not be cancelled: %s", error)

    # receiving

    def basic_consume(
        self, queue: str, no_ack: bool, callback: Callable[[Any], object], consumer_tag: str, **kwargs: Any
    ) -> None:
        """Begin to receive from a queue."""
        self._tag_to_queue[consumer_tag] = queue
        self._active_queues.append(queue)
        self._consumers.add(consumer_tag)

        def deliver(raw: Raw) -> None:
            message = self.Message(raw, channel=self)
            if not no_ack:
                self.qos.append(message, message.delivery_tag)
            callback(message)

        self._callbacks[queue] = deliver, no_ack
        self._run(self.intake.consume(queue))

    def basic_cancel(self, consumer_tag: str) -> None:
        """Receive no more for this consumer."""
        if consumer_tag not in self._consumers:
            return
        self._consumers.remove(consumer_tag)
        queue = self._tag_to_queue.pop(consumer_tag)
        self._active_queues.remove(queue)
        if queue not in self._active_queues and self._is_mine:
            self._callbacks.pop(queue, None)
            self._run(self.intake.cancel(queue))

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        """Receive one message now, None if there is none."""
        try:
            raw = self._get(queue)
        except Empty:
            return None
        message = self.Message(raw, channel=self)
        if no_ack:
            self.intake.done(message.delivery_tag)
        else:
            self.qos.append(message, message.delivery_tag)
        return message

    def _get(self, queue: str, timeout: float | None = None) -> Raw:
        delivery = self._run(self.intake.get(queue))
        if delivery is None:
            raise Empty
        delivery.move()
        return self._raw(delivery)

    def deliver_one(self) -> bool:
        """Hand one message that has arrived to its consumer; False if there is none for now."""
        while self.intake.ready:
            if not self.qos.can_consume():
                self.intake.soon(self.connection.look_again)
                return False
            try:
                delivery = self.intake.ready.popleft()
            except IndexError:
                return False
            if self._deliver(delivery):
                return True
        return False

    def _deliver(self, delivery: Delivery) -> bool:
        known = self._callbacks.get(delivery.queue)
        if known is None:  # cancelled meanwhile
            self.give_back(delivery.tag, None)
            return False
        delivery.move()
        declared = self.link.declared.get(delivery.queue, Declared())
        raw = self._raw(delivery)
        if is_expired(delivery.message, raw, declared.ttl_ms) or not _is_wanted(declared, raw):
            self.intake.done(delivery.tag)
            return False
        callback, no_ack = known
        if no_ack:
            self.intake.done(delivery.tag)
        callback(raw)
        return True

    def _raw(self, delivery: Delivery) -> Raw:
        raw = raw_of(delivery.message, is_again=delivery.attempt > 1)
        raw["properties"]["delivery_tag"] = delivery.tag
        return raw

    def give_back(self, delivery_tag: str, message: Any) -> None:
        """Have a message redelivered immediately; one that is this process's own comes again here."""
        work = self.intake.holding.give_back([delivery_tag])
        if self._is_mine:
            self._run(work)
        else:
            work.close()

    # ending

    @property
    def _is_mine(self) -> bool:
        """Whether this process made it, and not the one that it is a fork of."""
        return self._generation == forks.generation

    def after_reply_message_received(self, queue: str) -> None:
        """kombu: the replies to a question have come, or its time is over."""
        self.queue_delete(queue)

    def close(self) -> None:
        """Stop receiving, and give back what was not acknowledged."""
        if self.closed:
            return
        self.closed = True
        self._collected.detach()
        self._consumers.clear()
        self._callbacks.clear()
        if self._is_mine:
            try:
                self._run(self.intake.close(), _CLOSE_MS)
            except ClientError as error:
                logger.info("closing a channel: %s", error)
        if self._qos is not None:
            self._qos._delivered.clear()
        if self.connection is not None:
            self.connection.close_channel(self)
        self.exchange_types = None

    def _send(self, work: Any) -> None:
        self._run(work, self.link.settings.send_ms)

    def _run(self, work: Any, timeout_ms: int | None = None) -> Any:
        return self.link.run(work, timeout_ms)


def _pattern(routing_key: str) -> re.Pattern[str] | None:
    """Return what routing keys of a fan-out exchange are for a queue; None: all, as AMQP has it."""
    if ("*" not in routing_key and "#" not in routing_key) or routing_key == "#":
        return None
    words = {"*": r"[^.]+", "#": r".*"}
    return re.compile(r"\.".join(words.get(word, re.escape(word)) for word in routing_key.split(".")) + r"\Z")


def _is_wanted(declared: Declared, raw: Raw) -> bool:
    about = raw["properties"]["delivery_info"]
    pattern = declared.told.get(about.get("exchange", ""))
    return pattern is None or pattern.match(about.get("routing_key") or "") is not None


def _abandon(intake: Intake, generation: int) -> None:
    """Close what a program let go of; nobody waits for it."""
    if generation == forks.generation:
        intake.abandon()


def _call(method: weakref.WeakMethod[Callable[[], Any]]) -> Any:
    """Call a method whose object is still there."""
    there = method()
    return there() if there is not None else None
