"""Tests wait for events, never for time, and use the real thing."""

from __future__ import annotations

import ast

from tests.house.sources import ROOT, own_python, place, tree

TESTS = [path for path in own_python() if path.is_relative_to(ROOT / "tests")]


def calls(name: str) -> list[str]:
    found = []
    for path in TESTS:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call):
                function = node.func
                called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                if called == name:
                    found.append(place(path, node.lineno))
    return found


def test_no_test_sleeps() -> None:
    assert calls("sl" + "eep") == []


def test_no_test_replaces_our_own_code() -> None:
    assert [call for name in ("Mock", "MagicMock", "AsyncMock", "patch") for call in calls(name)] == []
