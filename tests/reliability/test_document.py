"""docs/RELIABILITY.md names a test for each promise: each is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "RELIABILITY.md"
#: `tests/some/test_file.py::test_name`, in the middle of a table or of a sentence
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def functions_of(path: Path) -> set[str]:
    """The names of all functions of a file."""
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }


def test_every_test_that_the_page_names_is_there() -> None:
    named = NAMED.findall(PAGE.read_text())
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (ROOT / file).exists() or (name and name not in functions_of(ROOT / file))
    ]
    assert missing == []
    assert len(named) > 20, "the page names hardly any"


def test_every_promise_of_the_page_names_a_test() -> None:
    rows = promises(PAGE.read_text())
    assert len(rows) > 10
    assert [row for row in rows if not NAMED.search(row)] == []


def promises(page: str) -> list[str]:
    """The rows of the table of what is promised."""
    section = page.partition("## What is promised")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return rows[1:]
