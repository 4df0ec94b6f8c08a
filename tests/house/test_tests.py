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


def test_names_of_tests_are_the_same_whenever_they_are_collected() -> None:
    # two workers collect for themselves, and none runs a test if their lists differ
    changing = {"time", "time_ns", "monotonic", "now", "utcnow", "today", "uuid4", "random", "randint", "token_hex"}
    found = []
    for path in TESTS:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "parametrize":
                inner = (each for part in (*node.args, *node.keywords) for each in ast.walk(part))
                called = {getattr(each.func, "attr", "") for each in inner if isinstance(each, ast.Call)}
                if called & changing:
                    found.append(place(path, node.lineno))
    assert found == []


def test_waiting_is_done_in_one_place() -> None:
    """By `tests.waiting`, which asks again until something holds; elsewhere an event that nobody sets is a sleep."""
    found = []
    for path in TESTS:
        if path.name == "waiting.py" or path.is_relative_to(ROOT / "tests" / "interop" / "python"):
            continue  # programs of other environments cannot import it
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "wait":
                waited = node.func.value
                made_here = isinstance(waited, ast.Call) and getattr(waited.func, "attr", "") == "Event"
                if made_here and (node.args or node.keywords):
                    found.append(place(path, node.lineno))
    assert found == []
