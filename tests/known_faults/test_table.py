"""docs/KNOWN-FAULTS.md names tests that exist, each for one fault, and each with the link of that fault."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.house.sources import ROOT

PAGE = ROOT / "docs" / "KNOWN-FAULTS.md"
TESTS = ROOT / "tests"
ROW = re.compile(
    r"\| \[(?P<fault>[^\]]+)\]\((?P<link>https://[^)\s]+)\) \| (?P<there>.+) \| (?P<here>.+) \| `(?P<test>.+)` \|"
)


class Fault(NamedTuple):
    """One row of the page."""

    fault: str
    link: str
    there: str
    here: str
    test: str


def lines() -> list[str]:
    """The rows of all tables, without their heads."""
    return [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and not line.startswith("| Fault ")]


def faults() -> list[Fault]:
    return [Fault(**found.groupdict()) for line in lines() if (found := ROW.fullmatch(line))]


@cache
def docstrings(path: Path) -> dict[str, str]:
    """What the tests of a file say of themselves; a test that is never run is none."""
    return {
        node.name: ast.get_docstring(node) or ""
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        if not any("skip" in ast.unparse(mark) or "soak" in ast.unparse(mark) for mark in node.decorator_list)
    }


def test_there_are_fifty_and_each_row_is_whole() -> None:
    assert [line for line in lines() if not ROW.fullmatch(line)] == []
    assert len(faults()) >= 50


@pytest.mark.parametrize("fault", faults(), ids=lambda fault: fault.fault)
def test_the_test_exists_and_carries_the_link(fault: Fault) -> None:
    path, _, name = fault.test.partition("::")
    assert fault.link in docstrings(TESTS / path)[name].split()


def test_each_fault_and_each_test_is_there_once() -> None:
    for column in ("fault", "link", "test"):
        found = [getattr(fault, column) for fault in faults()]
        assert sorted(found) == sorted(set(found)), column


def test_each_test_of_this_folder_is_in_the_table() -> None:
    """Whoever adds a fault here tells of it there."""
    named = {fault.test for fault in faults()}
    here = [path for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__)]
    assert {f"known_faults/{path.name}::{name}" for path in here for name in docstrings(path)} <= named
