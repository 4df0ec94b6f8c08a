"""Tests wait for events, never for time, and use the real thing."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.house.sources import ROOT, own_python, place, tree

TESTS = [path for path in own_python() if path.is_relative_to(ROOT / "tests")]


def called(node: ast.AST) -> str:
    """The last part of the name that is called, empty if nothing is."""
    function = node.func if isinstance(node, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def calls(*names: str) -> list[str]:
    return [
        place(path, node.lineno)
        for path in TESTS
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and called(node) in names
    ]


def test_no_test_sleeps() -> None:
    """Nor is the function of that name imported, kept or handed on."""
    found = []
    for path in TESTS:
        for node in ast.walk(tree(path)):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            named = node.attr if isinstance(node, ast.Attribute) else ""
            if "sl" + "eep" in (named, *imported):
                found.append(place(path, node.lineno))
    assert found == []


OURS = ("broker", "console", "spark")
#: What is replaced all the same, file and name; this list becomes shorter only.
STILL_REPLACED = {
    # nothing that a broker may meet makes its metrics fail; that they may is for a fault of ours
    ("tests/server/test_metrics.py", "schedule"),
}


def imports_of(path: Path) -> dict[str, str]:
    """What the names of a file stand for, by its imports."""
    found = {}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def patched(call: ast.Call) -> tuple[ast.expr | str, str]:
    """Of whom `setattr` or `delattr` of a monkeypatch replaces what; a name that is computed is none."""
    first, *rest = call.args
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        owner, _, name = first.value.rpartition(".")
        return owner, name
    given = rest[0] if rest else None
    return first, given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else ""


def is_of_others(owner: ast.expr | str, known: Mapping[str, str]) -> bool:
    """Whether it certainly belongs to nothing of ours: what a test keeps under a name of its own may be ours."""
    if not isinstance(owner, str):
        names = [node.id for node in ast.walk(owner) if isinstance(node, ast.Name)]
        texts = [node.value for node in ast.walk(owner) if isinstance(node, ast.Constant)]
        root = known.get(names[0], "") if names else ""
        # a module may be asked for by name, and one of ours may have imported what is replaced
        owner = next((text for text in texts if isinstance(text, str)), root) if root.startswith("sys") else root
    return bool(owner) and owner.partition(".")[0] not in (*OURS, "tests")


def test_no_test_replaces_our_own_code() -> None:
    """Constants may be others in a test. Our functions, methods and classes are the real ones: `tests.watching` counts
    their calls, and acts at them."""
    assert calls("Mock", "MagicMock", "AsyncMock", "patch") == []
    found = set()
    for path in TESTS:
        known = imports_of(path)
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and called(node) in ("setattr", "delattr") and "." in ast.unparse(node.func):
                owner, name = patched(node)
                if not is_of_others(owner, known) and not (name and name == name.upper()):
                    found.add((place(path), name))
    assert found == STILL_REPLACED


def test_names_of_tests_are_the_same_whenever_they_are_collected() -> None:
    # two workers collect for themselves, and none runs a test if their lists differ
    changing = {"time", "time_ns", "monotonic", "now", "utcnow", "today", "uuid4", "random", "randint", "token_hex"}
    found = []
    for path in TESTS:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "parametrize":
                inner = (each for part in (*node.args, *node.keywords) for each in ast.walk(part))
                if {called(each) for each in inner} & changing:
                    found.append(place(path, node.lineno))
    assert found == []


def events_that_nobody_sets(path: Path) -> Iterator[ast.expr]:
    """Waits for an event that was made just there, or that nothing is done with but to wait for it."""
    nodes = list(ast.walk(tree(path)))
    made = {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and called(node.value) == "Event"
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    made |= {name for name, origin in imports_of(path).items() if origin.startswith("tests.")}
    waits = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr == "wait"]
    waited = [node.value for node in waits]
    used = {
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node not in waited
    }
    for node in waits:
        owner = node.value
        if called(owner) == "Event" or (isinstance(owner, ast.Name) and owner.id in made - used):
            yield node


def waits_for_time(path: Path) -> Iterator[ast.expr]:
    """Besides those, waits that end without what is waited for: asyncio.wait with a time, and a time-out that is
    expected."""
    yield from events_that_nobody_sets(path)
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "asyncio.wait":
            if any(keyword.arg == "timeout" for keyword in node.keywords):
                yield node
        elif isinstance(node, ast.With) and "raises(TimeoutError" in ast.unparse(node.items[0]):
            for inner in (each for part in node.body for each in ast.walk(part)):
                if isinstance(inner, ast.Call) and called(inner) in ("wait", "wait_for", "timeout", "get"):
                    yield inner


def test_waiting_is_done_in_one_place() -> None:
    """By `tests.waiting`, which asks again until something holds. That nothing happens is seen by something later that
    comes the same way."""
    found = []
    for path in TESTS:
        if path.name == "waiting.py" or path.is_relative_to(ROOT / "tests" / "interop" / "python"):
            continue  # programs of other environments cannot import it
        found += [place(path, node.lineno) for node in waits_for_time(path)]
    assert found == []
