"""docs/OPERATE.md on a full disk: what it says of a `tmpfs` of 48 MB, done word for word. To mount one takes root."""

from __future__ import annotations

import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.client import BrokerRefused, Consumer, Producer
from tests.crash.killing import BrokerProcess
from tests.waiting import until

PAGE = (Path(__file__).parents[2] / "docs" / "OPERATE.md").read_text()
SECTION = PAGE.partition("## The disk is full")[2].partition("\n## ")[0]
ROWS = dict(re.findall(r"^\| (.+?) \| (.+?) \|$", SECTION, re.MULTILINE))
NUMBER = re.compile(r"\d[\d.]*")
BODY = b"x" * 200_000

pytestmark = pytest.mark.soak


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "escapement-full", str(path)], check=True)
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def said(row: str) -> str:
    """What the page says in a row, its message alone."""
    return ROWS[row].partition("`")[2].partition("`")[0]


def sent(producer: Producer) -> str:
    """What was said of one more message; nothing if it was taken."""
    try:
        producer.send("orders", BODY)
    except BrokerRefused as refused:
        return refused.remark
    return ""


def is_so(row: str, remark: str) -> bool:
    """Whether the page has that, whatever the numbers."""
    return NUMBER.sub("…", said(row)) in NUMBER.sub("…", remark)


def seen(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}") as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_full_disk_is_as_the_page_has_it(disk: Path) -> None:
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(30_000_000))
    broker = BrokerProcess(disk / "store", "--segment-size-bytes", str(4 << 20))
    address = re.findall(r"127\.0\.0\.1:\d+", broker.greeting)[0]
    got: list[bytes] = []
    consumer = Consumer("guide", broker.namesrv, from_where="first")
    consumer.subscribe("orders", "*", lambda message: got.append(message.body))
    try:
        with Producer("guide", broker.namesrv, retries=0) as producer:
            # the log runs into its end before anybody looks how full the disk is
            assert is_so("no room for the next segment", until(lambda: sent(producer), every_s=0))
            until(lambda: is_so("above 90 % (`diskMaxUsedSpaceRatio`)", sent(producer)))
            code, text = seen(address, "/readyz")
            assert (code, "READONLY" in text) == (503, True)
            metrics = seen(address, "/metrics")[1]
            assert re.search(r"^rocketmq_broker_permission(\{.*\})? 4(\.0)?$", metrics, re.MULTILINE)
            assert re.search(r"^escapement_store_state\{.*READONLY.*\} 1(\.0)?$", metrics, re.MULTILINE)
            assert re.search(r"^escapement_disk_used_ratio(\{.*\})? 0\.9", metrics, re.MULTILINE)
            with consumer:
                until(lambda: len(got) > 3)
            ballast.unlink()
            until(lambda: not sent(producer), timeout_s=3)
    finally:
        assert broker.end(signal.SIGTERM) == 0
