"""The synchronous producer: a thin face of AsyncProducer, safe for threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Unpack

from ._event_loop import Face, event_loop_thread
from ._outgoing import Outgoing, Timing, prepare
from ._producer import DEFAULT_GROUP, AsyncProducer
from ._transaction import check_plain_send
from ._types import Message, SendResult
from .credentials import Access
from .errors import ClientError

_run = event_loop_thread.run


class Producer(Face[AsyncProducer]):
    """Sends messages.

    >>> with Producer(group="orders", namesrv="127.0.0.1:9876") as producer:
    ...     producer.send("order", b"{}", tag="created", keys=["42"], delay_level=3)

    Every method raises ClientError and its kin; InvalidArgument before anything is sent.
    """

    def __init__(
        self, group: str = DEFAULT_GROUP, namesrv: str = "127.0.0.1:9876", *, retries: int = 2,
        trace: bool | str = False, **access: Unpack[Access],
    ) -> None:  # fmt: skip
        """`trace`: tell of every message in RocketMQ's trace topic (True), or in another one."""
        super().__init__(lambda: AsyncProducer(group, namesrv, retries=retries, trace=trace, **access))

    def send(
        self,
        topic: str,
        body: bytes | str,
        *,
        tag: str | None = None,
        keys: Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        delay_level: int = 0,
        queue_id: int | None = None,
        sharding_key: str | None = None,
        timeout_ms: int = 3000,
        **timing: Unpack[Timing],
    ) -> SendResult:
        """Send one message and wait until the broker has it; `prepare` and `Timing` say what can be given."""
        check_plain_send()
        message = prepare(
            body, tag=tag, keys=keys, properties=properties, delay_level=delay_level, queue_id=queue_id,
            sharding_key=sharding_key, **timing,
        )  # fmt: skip
        return _run(self._core.send_prepared(topic, message, timeout_ms=timeout_ms), timeout_ms=timeout_ms)

    def request(
        self, topic: str, body: bytes | str, *, tag: str | None = None, keys: Iterable[str] = (),
        properties: Mapping[str, str] | None = None, queue_id: int | None = None, timeout_ms: int = 3000,
    ) -> Message:  # fmt: skip
        """Send a message that whoever consumes it answers with `reply`, and wait for the answer; raises Timeout."""
        check_plain_send()
        asked = self._core.request(
            topic, body, tag=tag, keys=keys, properties=properties, queue_id=queue_id, timeout_ms=timeout_ms
        )
        return _run(asked, timeout_ms=timeout_ms)

    def reply(
        self, question: Message, body: bytes | str, *, properties: Mapping[str, str] | None = None,
        timeout_ms: int = 3000,
    ) -> None:  # fmt: skip
        """Answer a message that somebody sent with `request` (or RocketMQ's). Raises BrokerRefused if he is gone."""
        replied = self._core.reply(question, body, properties=properties, timeout_ms=timeout_ms)
        _run(replied, timeout_ms=timeout_ms)

    def send_batch(
        self, topic: str, messages: Sequence[Outgoing | bytes | str], *, queue_id: int | None = None,
        timeout_ms: int = 5000,
    ) -> list[SendResult]:  # fmt: skip
        """Send to one queue in one request: all are stored or none; no delays. `prepare` makes messages with tags."""
        check_plain_send()
        ready = [each if isinstance(each, Outgoing) else prepare(each) for each in messages]
        sent = self._core.send_batch(topic, ready, queue_id=queue_id, timeout_ms=timeout_ms)
        return _run(sent, timeout_ms=timeout_ms)

    def send_each(
        self, topic: str, messages: Sequence[Outgoing], *, queue_id: int | None = None, timeout_ms: int = 5000
    ) -> list[SendResult | ClientError]:
        """Send many messages of one topic at once; each is answered on its own, in order, and not tried again here."""
        check_plain_send()
        sent = self._core.send_each(topic, messages, queue_id=queue_id, timeout_ms=timeout_ms)
        return _run(sent, timeout_ms=timeout_ms)

    def send_topics(
        self, messages: Mapping[str, Sequence[Outgoing]], *, timeout_ms: int = 5000
    ) -> dict[str, list[SendResult | ClientError]]:
        """As send_each of several topics at the same time: one that is slow or cannot be sent at all holds up no other.

        Raises nothing for a topic that could not be sent: each of its messages has the error.
        """
        check_plain_send()
        return _run(self._core.send_topics(messages, timeout_ms=timeout_ms), timeout_ms=timeout_ms)

    def send_oneway(
        self,
        topic: str,
        body: bytes | str,
        *,
        tag: str | None = None,
        keys: Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        delay_level: int = 0,
        queue_id: int | None = None,
        sharding_key: str | None = None,
        timeout_ms: int = 3000,
        **timing: Unpack[Timing],
    ) -> None:
        """Send without waiting for an answer: whether it arrived is not told."""
        check_plain_send()
        message = prepare(
            body, tag=tag, keys=keys, properties=properties, delay_level=delay_level, queue_id=queue_id,
            sharding_key=sharding_key, **timing,
        )  # fmt: skip
        _run(self._core.send_oneway(topic, message, timeout_ms=timeout_ms), timeout_ms=timeout_ms)

    def recall(self, topic: str, handle: str, *, timeout_ms: int = 3000) -> str:
        """Take back a timer that was not delivered yet; returns its unique id. See AsyncProducer.recall."""
        return _run(self._core.recall(topic, handle, timeout_ms=timeout_ms), timeout_ms=timeout_ms)

    def close(self) -> None:
        """End the connections; idempotent."""
        _run(self._core.close())
        self._is_closed = True
