"""Docstrings of what other programs use say something."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.house.sources import ROOT, own_python, place, tree

ROOMS = ("client", "handlers", "outbox", "redisson")
LEAST_WORDS = 4


def short_docstrings(room: str) -> Iterator[str]:
    for path in own_python():
        if path.is_relative_to(ROOT / "broker" / room):
            for node in ast.walk(tree(path)):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    said = ast.get_docstring(node)
                    if said is not None and len(said.split()) < LEAST_WORDS:
                        yield f"{place(path, getattr(node, 'lineno', 1))} {said}"


@pytest.mark.parametrize("room", ROOMS)
def test_a_docstring_has_at_least_four_words(room: str) -> None:
    assert list(short_docstrings(room)) == []
