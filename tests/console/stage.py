"""A broker with something in it, mirrored, for tests of pages: hostile names and bodies included."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from broker.client import Admin, Consumer, Producer
from broker.mirror.follower import Mirror
from tests.console.kept import hang_up
from tests.mirror.running import RunningBroker, running_broker
from tests.waiting import until

#: what a browser must never run, whatever field it stands in
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "{{ 7*7 }}{% debug %}",
    "</pre><svg onload=alert(1)>",
    "' onmouseover='alert(1)",
    "<hx-partial hx-target='#main'>gone</hx-partial>",
)


class Stage:
    """`orders` with messages, every kind of hostile text, two lanes with backlog, one group."""

    def __init__(self, broker: RunningBroker, admin: Admin, producer: Producer) -> None:
        self.broker, self.admin, self.producer = broker, admin, producer
        self.mirror = Mirror(admin)
        admin.create_topic("orders", queues=2)
        self.mirror.run_once()

    def fill(self) -> None:
        """Send, park and consume, then mirror it."""
        for number in range(12):
            self.producer.send("orders", f'{{"order": {number}}}', keys=[f"order-{number}"], tag="paid", queue_id=0)
            self.producer.send("orders", b"\x00\xff" * 20, delay_level=16, keys=[f"late-{number}"])
        for text in HOSTILE:
            word = one_word(text)
            self.producer.send("orders", text, tag=word, keys=[word], queue_id=0, properties={"note": text})
            self.producer.send("orders", text, keys=[word], delay_level=17)
        self.mirror.run_once()

    def consume(self) -> None:
        """Let a group take what there is, so that it has offsets."""
        got = threading.Event()
        consumer = Consumer("billing", self.broker.namesrv, from_where="first")
        consumer.subscribe("orders", "*", lambda message: got.set())
        with consumer:
            assert got.wait(20), "the consumer got nothing"
        self.mirror.run_once()

    def wait_for(self, found: Callable[[], object], timeout_s: float = 15) -> None:
        """Ask again until there is something."""
        until(found, timeout_s)

    def close(self) -> None:
        """Let go of the mirror's lock."""
        self.mirror.close()


@contextmanager
def staged(root: Path, settings: Any, **broker_settings: Any) -> Iterator[Stage]:
    """A broker in the directory `root`, and Django's settings pointed at it while the block runs."""
    with running_broker(root, **broker_settings) as broker:
        settings.ESCAPEMENT_NAMESRV = broker.namesrv
        with Admin(broker.namesrv) as admin, Producer(group="tests", namesrv=broker.namesrv) as producer:
            made = Stage(broker, admin, producer)
            yield made
            made.close()
            hang_up()


def one_word(text: str) -> str:
    """As a tag or key can hold it: no blanks."""
    return text.replace(" ", "/")
