"""An official client beside ours: a Java producer and a Java push consumer whose events go into the same history."""

from __future__ import annotations

import asyncio
import random
from base64 import b64decode
from pathlib import Path

from tests.interop.process import ChildFailed
from tests.interop.programs import JavaConsumer, JavaProducer
from tests.reliability.history import Recorder, body_of, now_ms, read_body
from tests.reliability.rig import Lasting

VERSION = "5.5.0"
GROUP = "life-java"
#: It sends up to so often by itself, and does not say how often it did.
TRIES = 3


class JavaClients:
    """DefaultMQProducer and DefaultMQPushConsumer of 5.5.0 on one topic."""

    def __init__(self, namesrv: str, topic: str, recorder: Recorder, seed: int, work: Path) -> None:
        self._namesrv, self._topic, self._recorder, self._seed, self._work = namesrv, topic, recorder, seed, work
        self._producer: JavaProducer | None = None
        self._consumer: JavaConsumer | None = None
        self._read = 0

    async def start(self) -> None:
        """Start both programs; their group is to get everything of the topic."""
        self._recorder.note("rig", "reader", GROUP, topic=self._topic)
        self._consumer = await asyncio.to_thread(
            JavaConsumer, self._namesrv, GROUP, self._topic, version=VERSION, work=self._work
        )
        self._producer = await asyncio.to_thread(
            JavaProducer, self._namesrv, "life-java-sender", version=VERSION, work=self._work
        )

    async def send(self, lasting: Lasting) -> None:
        """Send one message after the other."""
        assert self._producer is not None
        draws = random.Random(f"{self._seed} java")
        number = 0
        while await lasting(draws.uniform(0, 0.06)):
            number += 1
            name = f"java-{number}"
            body = body_of(name, number % 700).decode()
            call_ms = now_ms()
            about = {"kind": "plain", "topic": self._topic, "tries": TRIES}
            try:
                sent = await asyncio.to_thread(self._producer.send, self._topic, body)
                outcome = sent["status"]
            except ChildFailed as failure:
                outcome = str(failure)[:160]
            known = "ok" if outcome == "SEND_OK" else "unknown"
            self._recorder.note("java", "send", name, known, call_ms=call_ms, said=outcome, **about)

    def collect(self) -> None:
        """Note what the consumer has got since the last time."""
        if self._consumer is None:
            return
        begin, self._read = self._read, self._consumer.count()
        for event in self._consumer.events("message", begin):
            name, intact = read_body(b64decode(event["base64"]))
            self._recorder.note(
                GROUP, "hand", name, answer_ms=event["arrivedMs"], group=GROUP, topic=self._topic, intact=intact,
                queue=event["queueId"], offset=event["queueOffset"], attempt=event["reconsumeTimes"],
                store_ms=event["storeMs"],
            )  # fmt: skip

    def end(self) -> None:
        """End both programs."""
        for program in (self._producer, self._consumer):
            if program is not None:
                program.child.kill()
