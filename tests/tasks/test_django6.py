"""Django 6 has tasks of its own: the same project on each interpreter that it needs, in an environment made for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.testing import BrokerThread
from tests.tasks.project import START_S, Project, project
from tests.waiting import until

UV = Path(sys.executable).with_name("uv")
INSTALL_S = 300
WANTED = ("3.12", "3.13", "3.14")
COUNT = 20


def interpreters() -> list[str]:
    """Interpreters of this machine that Django 6 runs on."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = []
    for version in WANTED:
        there = [str(path) for path in sorted(versions.glob(f"{version}.*/bin/python"))]
        at_hand = shutil.which(f"python{version}")
        if at_hand is not None and "shims" not in at_hand:
            there.append(at_hand)
        found += there[:1]
    return found


def test_there_is_an_interpreter_for_django_6() -> None:
    assert interpreters(), "Django 6 needs Python 3.12 or newer: install one, such as python3.12 or one of pyenv"


@pytest.fixture(params=interpreters(), ids=lambda path: Path(path).parts[-3])
def shop(request: pytest.FixtureRequest, tmp_path: Path, postgres: str) -> Iterator[Project]:
    python = tmp_path / "environment" / "bin" / "python"
    for command in (
        ["venv", "--quiet", "--python", request.param, str(python.parents[1])],
        ["pip", "install", "--quiet", "--python", str(python), "Django>=6,<7", "msgspec>=0.20", "psycopg[binary]>=3.2"],
    ):
        subprocess.run([str(UV), *command], check=True, timeout=INSTALL_S)
    with (
        BrokerThread() as broker,
        project(tmp_path / "project", postgres, broker.namesrv, str(python), "django6_tasks") as made,
    ):
        yield made


def test_tasks_of_django_6_run(shop: Project) -> None:
    assert shop.manage("version").startswith("6.")
    shop.manage("check")
    worker = shop.worker("--threads", "4")
    shop.manage("fill", str(COUNT))
    until(lambda: shop.states() == {"SUCCESSFUL": COUNT}, START_S)
    assert worker.stop() == 0
    assert shop.ran() == dict.fromkeys(range(COUNT), 1)
    assert "SUCCESSFUL" in shop.manage("tasks_results")
