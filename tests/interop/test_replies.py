"""Request and reply with the official clients and ours, in every pair, on Apache RocketMQ and on our broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.client import Consumer, Message, Producer, Timeout
from tests.interop.process import ChildFailed
from tests.interop.programs import Event, Program
from tests.interop.servers import Server

VERSIONS = ["4.9.8", "5.5.0"]
#: ClientErrorCode.REQUEST_TIMEOUT_EXCEPTION
NO_ANSWER = "CODE: 10006 .*OK, but wait reply message timeout"
#: The question itself must have been sent by then, on a machine that is busy too.
SOON_MS = 5_000


class JavaAsker(Program):
    """Asks, and answers what others ask."""

    def __init__(self, server: Server, version: str, *, work: Path) -> None:
        properties = ["rocketmq.client.rebalance.waitInterval=1000"]
        super().__init__("Ask", [server.namesrv], version=version, work=work, properties=properties)

    def question(self, topic: str, body: str, timeout_ms: int = 30_000) -> Event:
        """Ask, and return the answer."""
        return self.ask("ask", topic, body, timeout_ms, until="answered", timeout_s=60)[-1]

    def answer(self, group: str, topic: str) -> None:
        """Answer questions of a topic from now on."""
        self.ask("answer", group, topic, until="answering", timeout_s=60)


Asker = Callable[[str], JavaAsker]


@pytest.fixture
def asker(server: Server, tmp_path: Path) -> Iterator[Asker]:
    """Start Java clients that end with the test."""
    started: list[JavaAsker] = []

    def start(version: str) -> JavaAsker:
        started.append(JavaAsker(server, version, work=tmp_path))
        return started[-1]

    yield start
    for one in started:
        one.child.kill()


@pytest.mark.parametrize("version", VERSIONS)
def test_java_asks_java(asker: Asker, version: str, topic: str, group: str) -> None:
    asking, answering = asker(version), asker(version)
    answering.answer(group, topic)
    for number in range(3):
        answer = asking.question(topic, f"question {number}")
        assert (answer["body"], answer["topic"]) == (f"echo question {number}", "DefaultCluster_REPLY_TOPIC")
        assert answer["properties"]["MSG_TYPE"] == "reply"


@pytest.mark.parametrize("version", VERSIONS)
def test_java_asks_python_and_python_asks_java(
    server: Server, asker: Asker, version: str, topic: str, group: str
) -> None:
    java, back = asker(version), f"{topic}-back"
    consumer = Consumer(group, server.namesrv, from_where="first")
    with Producer("answering", server.namesrv) as producer:

        def answer(message: Message) -> None:
            producer.reply(message, b"python " + message.body)

        producer.send(topic, b"makes the topic", tag="none")
        consumer.subscribe(topic, "*", lambda message: None if message.tags == "none" else answer(message))
        with consumer:
            assert java.question(topic, "question")["body"] == "python question"
        java.answer(f"{group}-java", back)
        assert producer.request(back, b"question", timeout_ms=30_000).body == b"echo question"


def test_without_an_answer_both_say_so(server: Server, asker: Asker, topic: str) -> None:
    with pytest.raises(ChildFailed, match=NO_ANSWER):
        asker("5.5.0").question(topic, "question", SOON_MS)
    with Producer("asking", server.namesrv) as producer, pytest.raises(Timeout):
        producer.request(topic, b"question", timeout_ms=SOON_MS)
