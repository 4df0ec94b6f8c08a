"""`manage.py check --deploy` with what docs/deploy/environment says: nothing, not even a warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.sources import ROOT
from tests.mirror.running import running_broker

OWN = re.findall(r"^([A-Z_]+)=(.*)$", (ROOT / "docs" / "deploy" / "environment").read_text(), re.MULTILINE)
SECRET = "f0Zq7" * 12


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_broker(tmp_path_factory.mktemp("store")) as broker:
        yield broker.namesrv


def checked(place: Path, namesrv: str, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("ESCAPEMENT_", "DJANGO_"))}
    said = dict(OWN) | {"SECRET_KEY": SECRET, "ESCAPEMENT_VAR": str(place), "ESCAPEMENT_STORE": str(place / "store")}
    said |= {"ESCAPEMENT_NAMESRV": namesrv, **more}
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    return subprocess.run(command, cwd=ROOT, env=kept | said, capture_output=True, text=True, check=False)


def test_the_settings_of_the_page_are_clean(tmp_path: Path, namesrv: str) -> None:
    found = checked(tmp_path, namesrv)
    assert found.returncode == 0, found.stderr
    # the two that are for the owner of a domain, and no others
    assert "no issues (2 silenced)" in found.stdout


def test_others_are_not(tmp_path: Path, namesrv: str) -> None:
    found = checked(tmp_path, namesrv, SECRET_KEY="short", ESCAPEMENT_HTTPS="0", ESCAPEMENT_DEBUG="1")
    assert found.returncode == 1
    for said in ("security.W009", "security.W012", "security.W018"):
        assert said in found.stderr
