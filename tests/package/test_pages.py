"""docs/COMING-FROM.md and docs/PROCESSES.md: their programs, from the wheel in an environment of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from broker.testing import BrokerThread
from tests.house.sources import ROOT
from tests.package.conftest import Install
from tests.package.walkthrough import Walk
from tests.ports import free_port
from tests.waiting import until


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as running:
        yield running


def walk(page: str, python: Path, place: Path, broker: BrokerThread, **instead: str) -> Walk:
    """A walk in a shell whose python is this one, and which has the wheel already."""
    env = {"HOME": str(place), "PATH": f"{python.parent}:{os.environ['PATH']}", "PYTHONUNBUFFERED": "1"}
    return Walk(ROOT / "docs" / page, place, env, instead={"127.0.0.1:9876": broker.namesrv, **instead})


def test_who_comes_from_elsewhere_finds_what_is_promised(
    install: Install, broker: BrokerThread, valkey: str, tmp_path: Path
) -> None:
    walking = walk(
        "COMING-FROM.md", install("redisson"), tmp_path, broker, **{"redis://127.0.0.1:6379/0": valkey}
    )  # fmt: skip
    try:
        walking.follow([block for block in walking.blocks if "pip install" not in block.text])
        assert walking.end() == {"second terminal": 0}
    finally:
        walking.kill()


@pytest.mark.parametrize("server", ["gunicorn", "uwsgi"])
def test_a_client_of_the_parent_works_in_the_workers_of_a_server(
    install: Install, broker: BrokerThread, tmp_path: Path, server: str
) -> None:
    port = free_port()
    ports = {"127.0.0.1:8001": f"127.0.0.1:{port}", "127.0.0.1:8002": f"127.0.0.1:{port}"}
    walking = walk("PROCESSES.md", install("", "gunicorn", "pyuwsgi"), tmp_path, broker, **ports)
    try:
        walking.follow([block for block in walking.blocks if block.about in ("app.py", f"{server} terminal")])
        answer = until(lambda: httpx.get(f"http://127.0.0.1:{port}/", timeout=60), 120, not_yet=(httpx.TransportError,))
        assert list(walking.end()) == [f"{server} terminal"]
    finally:
        walking.kill()
    (master,) = [message.body.decode() for message in broker.messages("starts")]
    worker, _, topic = answer.raise_for_status().text.partition(" sent to ")
    assert (topic, worker == master.split()[0]) == ("visits\n", False)
