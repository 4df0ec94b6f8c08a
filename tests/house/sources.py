"""The committed files that the house rules look at."""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def tracked(*suffixes: str) -> tuple[Path, ...]:
    """Tracked files with one of these endings, or all of them; files deleted in the working tree are left out."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = (ROOT / name for name in listed.split("\0") if name)
    return tuple(path for path in paths if path.is_file() and (not suffixes or path.suffix in suffixes))


def own_python() -> tuple[Path, ...]:
    """Python that people wrote; migrations are written by Django."""
    return tuple(path for path in tracked(".py") if "migrations" not in path.parts)


@cache
def tree(path: Path) -> ast.Module:
    """The parsed module."""
    return ast.parse(path.read_text(), str(path))


def place(path: Path, line: int = 0) -> str:
    """How a rule names the spot that breaks it."""
    name = str(path.relative_to(ROOT))
    return f"{name}:{line}" if line else name
