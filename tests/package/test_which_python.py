"""Which Python an environment is made of: that of the PATH, or the system's where that was not optimized."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "console" / "run" / "which-python"
PYENV = "'--prefix=/root/.pyenv/versions/3.11.7' '--enable-shared'"
IMAGE = "'--enable-shared' '--with-lto' '--enable-optimizations'"


def interpreter(path: Path, options: str, prefix: str = "/opt/python", version: tuple[int, int] = (3, 11)) -> Path:
    """A Python that says to have been compiled in some way."""
    pretend = (
        f"import sys, sysconfig; sysconfig.get_config_var = {{'CONFIG_ARGS': {options!r}}}.get; "
        f"sys.base_prefix = {prefix!r}; sys.version_info = {version!r}; exec(sys.argv[2])"
    )
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{pretend}" "$@"\n')
    path.chmod(0o755)
    return path


def asked(path: Path, system: Path) -> tuple[str, str]:
    """What the script prints, and what it says, where python3 is found at `path` and the system's is another."""
    done = subprocess.run(
        [str(SCRIPT), str(system)], env={**os.environ, "PATH": f"{path.parent}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip(), done.stderr


def test_one_without_optimizations_gives_way_to_the_systems(tmp_path: Path) -> None:
    system = interpreter(tmp_path / "system", "", "/usr")
    printed, said = asked(interpreter(tmp_path / "python3", PYENV), system)
    assert printed == str(system)
    assert "make PYTHON=python3" in said


@pytest.mark.parametrize(
    ("options", "prefix", "of_the_system", "version"),
    [
        (IMAGE, "/opt/python", "/usr", (3, 11)),
        ("", "/usr", "/usr", (3, 11)),
        (PYENV, "/opt/python", "/usr", (3, 10)),
        (PYENV, "/opt/python", "/opt/python", (3, 13)),
    ],
    ids=["an image's", "a distribution's", "too old a system's", "no system's that is better"],
)
def test_it_is_that_of_the_path_otherwise(
    tmp_path: Path, options: str, prefix: str, of_the_system: str, version: tuple[int, int]
) -> None:
    system = interpreter(tmp_path / "system", PYENV, of_the_system, version)
    assert asked(interpreter(tmp_path / "python3", options, prefix), system) == ("python3", "")


def test_there_need_be_no_system_python(tmp_path: Path) -> None:
    assert asked(interpreter(tmp_path / "python3", PYENV), tmp_path / "none") == ("python3", "")
