"""docs/WATCHING.md: its commands print what it shows; its rules and its dashboard name what is there, and hold.

A real Prometheus reads a real broker and a real console, with the rules, and is asked what each panel asks.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.client import Consumer, Producer
from broker.handlers import health
from broker.testing import BrokerThread
from tests.house.sources import ROOT
from tests.interop.process import Child
from tests.ports import free_port
from tests.waiting import until

GUIDE = (ROOT / "docs" / "WATCHING.md").read_text()
METRICS = (ROOT / "docs" / "METRICS.md").read_text()
WATCHING = ROOT / "docs" / "watching"
COMMAND = re.compile(r"^\$ (.+)\n((?:(?!\$ |```).*\n)*)", re.MULTILINE)
#: moments, numbers, and of a command line what the page cuts off elsewhere
VARYING = re.compile(r"(?<=served by )\d+ \(.*\)|\d[\d,.:TZ-]*")
NAME = re.compile(r"\b(?:rocketmq|escapement|process)_[a-z_]+\b|\bup\b")
#: names of labels that look like names of metrics
LABELS = {"escapement_store_state"}
PROCESS = {"process_open_fds", "process_max_fds", "process_cpu_seconds_total", "process_resident_memory_bytes", "up"}
START_S = 60
#: of what has not happened to that broker, whose console has no mirror, nothing is told
NOT_HAPPENED = {
    "escapement_mirror_as_of_seconds", "escapement_mirror_took_seconds", "escapement_mirror_failing",
    "escapement_operations", "escapement_registered", "escapement_delay_lateness_milliseconds",
    "rocketmq_consumer_inflight_messages", "rocketmq_send_to_dlq_messages_total",
}  # fmt: skip


class Place:
    """A broker that was started as the page says, on ports of its own, and its `/srv`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.port, self.namesrv = free_port(), free_port()
        log = path / "broker.log"
        self.broker = Child(
            [
                sys.executable, "-m", "broker", "broker", "--store", str(path / "store"), "--log-format", "json",
                "--slow-ms", "1", "--port", str(self.port), "--namesrv-port", str(self.namesrv),
            ],
            log=log, cwd=ROOT,
        )  # fmt: skip
        (path / "broker.pid").write_text(str(self.broker.pid))
        until(lambda: self.broker.lines)
        with Producer("guide", f"127.0.0.1:{self.namesrv}") as producer:
            # as long as the disk is quicker than the limit
            until(lambda: producer.send("orders", "x") and '"send_message"' in log.read_text(), START_S)

    def run(self, command: str) -> str:
        """What a command of the page prints, to both outputs, with the page's names."""
        told = command.replace("/srv", str(self.path)).replace("10911", str(self.port))
        if "doctor" in told:
            told += f" --port {self.port} --namesrv-port {self.namesrv}"
        told = told.replace("python -m escapement_mq", f"{sys.executable} -m broker")
        done = subprocess.run(
            ["sh", "-c", told], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if "kill" in told:
            until(lambda: "SIGUSR2" in (self.path / "broker.log").read_text())
        return done.stdout.replace(str(self.path), "/srv")


def plain(text: str) -> list[str]:
    return [VARYING.sub("…", line.rstrip()) for line in text.splitlines() if line.strip()]


def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path) -> None:
    found = COMMAND.findall(GUIDE)
    assert len(found) == 13
    place = Place(tmp_path)
    try:
        for command, shown in found:
            assert plain(place.run(command)) == plain(shown), command
    finally:
        assert place.broker.stop() == 0


def documented() -> set[str]:
    """The names of METRICS.md, which tests of broker and console compare with what they tell."""
    return set(re.findall(r"^\| `([a-z_]+)`", METRICS, re.MULTILINE))


def of_family(name: str) -> str:
    """The name that METRICS.md has for a series of a histogram."""
    return re.sub(r"_(?:bucket|count|sum)$", "", name)


def expressions() -> list[str]:
    """All that rules and dashboard ask."""
    rules = re.findall(r"^        expr: '(.+)'$", (WATCHING / "rules.yml").read_text(), re.MULTILINE)
    dashboard = json.loads((WATCHING / "grafana.json").read_text())
    return [*(each.replace("''", "'") for each in rules), *panels(), dashboard["annotations"]["list"][0]["expr"]]


def panels() -> list[str]:
    """What the panels of the dashboard ask."""
    dashboard = json.loads((WATCHING / "grafana.json").read_text())
    return [each["expr"] for panel in dashboard["panels"] for each in panel.get("targets", ())]


def asked_in_panel(expression: str) -> str:
    """What Grafana makes of it for all brokers."""
    return expression.replace("$__rate_interval", "30s").replace("$node", ".*")


def test_every_metric_that_is_asked_for_is_there() -> None:
    asked = {of_family(name) for expression in expressions() for name in NAME.findall(expression)}
    assert asked - documented() - PROCESS == set()
    # and what is worth an alert or a panel has one: what is left out is said here
    left_out = documented() - asked
    assert left_out <= {
        "rocketmq_topic_number",
        "rocketmq_consumer_group_number",
        "rocketmq_storage_message_reserve_time",
        # measured once: what falls due against it is the console's to judge
        "escapement_timer_capacity_per_second",
    } | {name for name in documented() if name.startswith("escapement_handle") or name == "escapement_queues"}


def test_what_a_process_of_handlers_tells_is_documented() -> None:
    part = METRICS.partition("## Of a process of handlers")[2]
    told = set(re.findall(r"^# TYPE (\w+) ", health.metrics({}), re.MULTILINE))
    assert set(re.findall(r"^\| `([a-z_]+)`", part, re.MULTILINE)) == told


def test_the_panels_of_the_dashboard_stand_beside_each_other() -> None:
    dashboard = json.loads((WATCHING / "grafana.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    """A broker that has sent, delayed, timed and given messages."""
    with BrokerThread() as running:
        with Producer("watching", running.namesrv) as producer:
            for number in range(20):
                producer.send("orders", f"{number}", keys=[f"{number}"])
            producer.send("orders", "level", delay_level=18)
            producer.send("orders", "timer", delay_ms=3_600_000)
            consumer, got = Consumer("watchers", running.namesrv, from_where="first"), list[bytes]()
            consumer.on("orders")(lambda message: got.append(message.body))
            with consumer:
                until(lambda: len(got) >= 20, START_S)
                yield running


def asked_of(prometheus: str, path: str, **query: str) -> Any:
    answer = httpx.get(f"{prometheus}/api/v1/{path}", params=query, timeout=30).json()
    assert answer["status"] == "success", answer
    return answer["data"]


def test_a_prometheus_reads_both_and_answers_each_panel_and_rule(
    broker: BrokerThread, transactional_db: None, live_server: Any, tmp_path: Path
) -> None:
    port = free_port()
    program = shutil.which("prometheus")
    assert program is not None
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 2s, evaluation_interval: 1s}\n"
        f"rule_files: ['{WATCHING / 'rules.yml'}']\n"
        "scrape_configs:\n  - job_name: escapement\n    static_configs:\n"
        f"      - targets: ['{broker.address}', '{live_server.url.removeprefix('http://')}']\n"
    )
    running = Child(
        [
            program, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        log=tmp_path / "prometheus.log", cwd=tmp_path,
    )  # fmt: skip
    prometheus = f"http://127.0.0.1:{port}"
    try:
        until(lambda: httpx.get(f"{prometheus}/-/ready").is_success, START_S, not_yet=(httpx.TransportError,))
        # two rounds of both, of which rates are made
        until(lambda: counted(prometheus, "sum_over_time(up[1m]) >= 3") == 2, START_S)
        empty = {
            expression
            for expression in panels()
            if not asked_of(prometheus, "query", query=asked_in_panel(expression))["result"]
        }
        assert {name for expression in empty for name in NAME.findall(expression)} == NOT_HAPPENED
        until(lambda: [rule["health"] for rule in rules(prometheus)] == ["ok"] * 22, START_S)
        assert [rule["name"] for rule in rules(prometheus) if rule["state"] == "firing"] == []
        broker.stop()
        until(lambda: "EscapementDown" in pending(prometheus), START_S)
    finally:
        running.stop()


def rules(prometheus: str) -> list[dict[str, Any]]:
    return [rule for group in asked_of(prometheus, "rules")["groups"] for rule in group["rules"]]


def counted(prometheus: str, query: str) -> int:
    return len(asked_of(prometheus, "query", query=query)["result"])


def pending(prometheus: str) -> list[str]:
    return [each["labels"]["alertname"] for each in asked_of(prometheus, "alerts")["alerts"]]
