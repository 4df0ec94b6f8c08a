"""The wheel, built once from this checkout, and empty environments in which it is installed with an extra."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.house.sources import ROOT

UV = Path(sys.executable).with_name("uv")
BUILD_S = 600
Install = Callable[..., Path]


def run(*command: str | Path, env: dict[str, str] | None = None, cwd: Path = ROOT, code: int = 0) -> str:
    """Run a program and return what it printed; a failed assertion says all of it."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True, timeout=BUILD_S, check=False
    )
    assert done.returncode == code, f"{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout + (done.stderr if code else "")


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with wheel and source distribution; DIST names one that is made already."""
    if given := os.environ.get("DIST"):
        return Path(given).resolve()
    made = tmp_path_factory.mktemp("dist")
    run(UV, "build", "--out-dir", made, ROOT)
    return made


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    """The wheel, made from the source distribution as an index would have it made."""
    (found,) = dist.glob("escapement_mq-*.whl")
    return found


@pytest.fixture(scope="session")
def install(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Return the interpreter of a new environment that has the wheel with these extras, and what else is named."""
    made: dict[tuple[str, ...], Path] = {}

    def environment(extras: str = "", *more: str, python: str = sys.executable) -> Path:
        key = (extras, *more, python)
        if key not in made:
            place = tmp_path_factory.mktemp("environment")
            run(UV, "venv", "--quiet", "--python", python, place)
            made[key] = place / "bin" / "python"
            run(UV, "pip", "install", "--python", made[key], f"{wheel}[{extras}]" if extras else wheel, *more)
        return made[key]

    return environment
