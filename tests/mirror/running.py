"""A real broker in a thread of the test process, with its own event loop, ports and directory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from broker.engine.config import EngineConfig
from broker.rocketmq.acl import AccessConfig
from broker.server.broker import BrokerService, Protection

#: small files, so that a store costs no disk
SMALL = {"segment_size_bytes": 1 << 22, "queue_file_entries": 4_096, "index_slots": 4_096, "index_entries": 16_384}


class RunningBroker:
    """`namesrv` is its address; `stop` closes it like TERM does."""

    def __init__(self, root: Path, access: AccessConfig | None = None, **settings: Any) -> None:
        self._access = access
        self._config = EngineConfig(root=str(root), port=0, **(SMALL | settings))
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="test-broker", daemon=True)
        self._thread.start()
        assert self._ready.wait(20), "the broker did not start"
        if self._failure is not None:
            raise self._failure

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        service = BrokerService(self._config, broker_port=0, namesrv_port=0, protection=Protection(access=self._access))
        self.service = service
        try:
            await service.start()
        except BaseException as error:
            self._failure = error
            self._ready.set()
            return
        self.namesrv = service.namesrv_address
        self.address = service.address
        self._ready.set()
        await self._stopping.wait()
        await service.stop(5)

    def call(self, what: Callable[[], object]) -> None:
        """Call something in the broker's own thread, and wait for it."""

        async def called() -> None:
            what()

        asyncio.run_coroutine_threadsafe(called(), self._loop).result(60)

    @contextmanager
    def without(self, *codes: int) -> Iterator[None]:
        """Do not know these requests for a `with` block, as an older broker or Apache RocketMQ."""
        handlers: dict[int, Any] = next(each for each in self.service.servers if each.name == "broker")._handlers
        kept = {code: handlers[code] for code in codes}
        self.call(lambda: [handlers.pop(code) for code in codes])
        try:
            yield
        finally:
            self.call(lambda: handlers.update(kept))

    def stop(self) -> None:
        """Stop it; twice is fine."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(10)


@contextmanager
def running_broker(root: Path, **settings: Any) -> Iterator[RunningBroker]:
    """A broker for a `with` block."""
    broker = RunningBroker(root, **settings)
    try:
        yield broker
    finally:
        broker.stop()
