"""`manage.py consume` as a service: until nothing is left, with several processes, with a health port."""

from __future__ import annotations

import os
import signal
import urllib.request
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from textwrap import dedent
from typing import Any
from urllib.error import HTTPError

import pytest
from django.core.management import CommandError, call_command

from broker.client import Admin, Consumer, Producer
from broker.handlers.health import HealthPort, metrics, troubles
from broker.testing import BrokerThread, small_store
from tests.handlers.test_consume import START_S
from tests.interop.jars import REPOSITORY
from tests.interop.process import Child
from tests.interop.waiting import wait_until

SETTINGS = """
    import os
    SECRET_KEY = "of a test"
    INSTALLED_APPS = ["broker.handlers", "bills"]
    ESCAPEMENT_NAMESRV = os.environ["NAMESRV"]
"""
HANDLERS = """
    import os
    from broker.handlers import consumer

    @consumer("orders", group="billing", from_where="first")
    def bill(message):
        print(f"billed {message.body.decode()} {os.getpid()}\\n", end="", flush=True)
"""


class Project:
    """The project and its broker."""

    def __init__(self, work: Path, broker: BrokerThread) -> None:
        self.broker, self._work = broker, work
        self._env = {
            "DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": f"{work}:{REPOSITORY}", "NAMESRV": broker.namesrv,
        }  # fmt: skip

    def consume(self, *arguments: str) -> Child:
        command = [os.sys.executable, "-m", "django", "consume", *arguments]  # type: ignore[attr-defined] # it is there
        return Child(command, log=self._work / "consume.log", env=self._env)

    def send(self, *bodies: str) -> None:
        with Producer("shop", self.broker.namesrv) as producer:
            for body in bodies:
                producer.send("orders", body)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    for name, text in {"settings.py": SETTINGS, "bills/__init__.py": "", "bills/handlers.py": HANDLERS}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(dedent(text))
    with BrokerThread(small_store(tmp_path)) as broker:
        with Admin(broker.namesrv) as admin:
            admin.create_topic("orders", queues=4)
        yield Project(tmp_path, broker)


def billed(child: Child) -> list[str]:
    return sorted(line.split()[1] for line in child.lines if line.startswith("billed "))


def test_a_drain_ends_when_nothing_is_left(project: Project) -> None:
    project.send("1", "2", "3")
    child = project.consume("--drain")
    assert child.process.wait(START_S) == 0
    child.stop()
    assert billed(child) == ["1", "2", "3"]
    with Admin(project.broker.namesrv) as admin:
        assert admin.consume_stats("billing").lag == 0


def test_processes_are_begun_again_and_end_together(project: Project) -> None:
    child = project.consume("--processes", "2")
    assert wait_until(lambda: child.lines.count("consuming") == 2, START_S)
    project.send(*map(str, range(40)))
    assert wait_until(lambda: len(set(billed(child))) == 40, START_S)
    first = {line.split()[2] for line in child.lines if line.startswith("billed ")}
    os.kill(int(min(first)), signal.SIGKILL)
    assert wait_until(lambda: child.lines.count("consuming") == 3, START_S)
    project.send("last")
    assert wait_until(lambda: "last" in billed(child), START_S)
    child.process.terminate()
    assert child.process.wait(START_S) == 0
    child.stop()


@pytest.mark.parametrize(
    "options", [{"processes": 0}, {"reload": True, "drain": True}, {"reload": True, "processes": 2}]
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(CommandError, match="--"):
        call_command("consume", **options)


def asked(port: int, path: str) -> tuple[int, str]:
    try:
        answer: HTTPResponse = urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=START_S)
    except HTTPError as error:
        return error.code, error.read().decode()
    return answer.status, answer.read().decode()


def test_the_health_port_says_what_keeps_a_group_from_its_work(project: Project) -> None:
    broker = project.broker
    consumer = Consumer("billing", broker.namesrv, from_where="first")

    def handle(message: object) -> None:
        raise ValueError

    consumer.subscribe("orders", "*", handle)
    running = {"billing": consumer}
    with consumer, HealthPort(running, "127.0.0.1", 0) as health:
        assert asked(health.port, "/healthz") == (200, "ok\n")
        assert asked(health.port, "/") == (404, "There are /healthz and /metrics.\n")
        project.send("1")
        failed = 'escapement_handler_failures_total{group="billing",topic="orders"} 1\n'
        assert wait_until(lambda: failed in metrics(running), START_S)
        code, text = asked(health.port, "/metrics")
        assert (code, 'escapement_queues{group="billing"}' in text, failed in text) == (200, True, True)
        broker.stop()
        assert wait_until(lambda: bool(troubles(running)), START_S)
        code, text = asked(health.port, "/healthz")
        assert (code, f"billing: {broker.address}" in text) == (503, True)
        broker.start()
        assert wait_until(lambda: asked(health.port, "/healthz")[0] == 200, START_S)
