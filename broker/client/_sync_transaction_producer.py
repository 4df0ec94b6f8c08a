"""The synchronous transaction producer: a thin face of AsyncTransactionProducer, safe for threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, Unpack, cast

from ._event_loop import Face, event_loop_thread
from ._outgoing import Outgoing, Timing, prepare
from ._sync_producer import Producer
from ._transaction import Checker, Confirmed, Decision, Half, TransactionListener, TransactionResult
from ._transaction_producer import AsyncTransactionProducer
from .credentials import Access
from .errors import ClientError

_run = event_loop_thread.run


class TransactionProducer(Producer):
    """Sends messages that consumers see only if a local transaction succeeded.

    >>> class Payments(TransactionListener):
    ...     def execute(self, half, order):
    ...         order.pay(half.transaction_id)
    ...         return Decision.COMMIT
    ...
    ...     def check(self, message):
    ...         return Decision.COMMIT if is_paid(message.unique_key) else Decision.ROLLBACK
    >>> with TransactionProducer("payments", listener=Payments()) as producer:
    ...     producer.send_in_transaction("paid", b"4711", argument=order)

    It is a Producer too: `send` and its kin go out at once, in no transaction. Every method raises ClientError and its
    kin; InvalidArgument before anything is sent.
    """

    def __init__(
        self, group: str, namesrv: str = "127.0.0.1:9876", *, check: Checker | None = None,
        listener: TransactionListener | None = None, confirmed: Confirmed | None = None, retries: int = 2,
        trace: bool | str = False, **access: Unpack[Access],
    ) -> None:  # fmt: skip
        def make() -> AsyncTransactionProducer:
            return AsyncTransactionProducer(
                group, namesrv, check=check, listener=listener, confirmed=confirmed, retries=retries, trace=trace,
                **access,
            )  # fmt: skip

        Face.__init__(self, make)

    @property
    def _core(self) -> AsyncTransactionProducer:
        return cast(AsyncTransactionProducer, super()._core)

    def __enter__(self) -> Self:
        self.start()
        return self

    @property
    def group(self) -> str:
        """The producer group that brokers ask."""
        return self._core.group

    def start(self) -> None:
        """Tell every broker that this producer is there, so that it is asked; the first half does it too."""
        _run(self._core.start())

    def send_in_transaction(
        self,
        topic: str,
        body: bytes | str,
        argument: Any = None,
        *,
        tag: str | None = None,
        keys: Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        delay_level: int = 0,
        queue_id: int | None = None,
        sharding_key: str | None = None,
        timeout_ms: int = 3000,
        **timing: Unpack[Timing],
    ) -> TransactionResult:
        """Send a half, have the listener's `execute` do the local work, and decide by what it returns.

        What `execute` raises is raised here: then nothing is decided, and the broker asks `check`. `timeout_ms` is for
        half and decision together; what `execute` takes is its own.
        """
        message = prepare(
            body, tag=tag, keys=keys, properties=properties, delay_level=delay_level, queue_id=queue_id,
            sharding_key=sharding_key, **timing,
        )  # fmt: skip
        return _run(self._core.send_in_transaction(topic, message, argument, timeout_ms=timeout_ms))

    def send_half(
        self, topic: str, message: Outgoing, *, marks: Mapping[str, str] | None = None, queue_id: int | None = None,
        timeout_ms: int = 3000,
    ) -> Half:  # fmt: skip
        """Send a half that `prepare` made; decide it with `commit` or `rollback`, or leave it to `check`."""
        sent = self._core.send_half(topic, message, marks=marks, queue_id=queue_id, timeout_ms=timeout_ms)
        return _run(sent, timeout_ms=timeout_ms)

    def commit(self, half: Half, *, timeout_ms: int = 3000) -> None:
        """Show the message to consumers; raises ClientError if the broker did not confirm it, which will then ask."""
        _run(self._core.end(half, Decision.COMMIT, timeout_ms=timeout_ms), timeout_ms=timeout_ms)

    def rollback(self, half: Half, *, timeout_ms: int = 3000) -> None:
        """Drop the message; raises ClientError if the broker did not confirm it, which will then ask."""
        _run(self._core.end(half, Decision.ROLLBACK, timeout_ms=timeout_ms), timeout_ms=timeout_ms)

    def end_all(
        self, halves: Sequence[Half], decision: Decision, *, timeout_ms: int = 3000
    ) -> list[ClientError | None]:
        """Decide many at once; None for each that its broker has taken, else why not."""
        return _run(self._core.end_all(halves, decision, timeout_ms=timeout_ms), timeout_ms=timeout_ms)
