"""The engine is a pure machine: no clock, no sockets, no threads, no libraries; one file touches the disk."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.house.sources import ROOT, own_python, place, tree

ENGINE = ROOT / "broker" / "engine"
WORLD = {"time", "threading", "socket", "asyncio", "random", "os", "subprocess", "select", "datetime", "secrets"}
#: The one seam to the disk.
DISK = ENGINE / "disk.py"


def imports(path: Path) -> Iterator[tuple[int, str, int]]:
    """Line, module and level (dots) of every import, lazy ones included."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or "", node.level


def engine_files() -> list[Path]:
    return [path for path in own_python() if path.is_relative_to(ENGINE)]


def is_test_kit(path: Path) -> bool:
    return "testing" in path.relative_to(ENGINE).with_suffix("").parts


def test_the_engine_uses_the_standard_library_only() -> None:
    foreign = [
        f"{place(path, line)} {module}"
        for path in engine_files()
        for line, module, level in imports(path)
        if level == 0 and module.partition(".")[0] not in sys.stdlib_module_names
    ]
    assert foreign == []


def test_the_engine_knows_no_clock_no_network_and_no_thread() -> None:
    worldly = [
        f"{place(path, line)} {module}"
        for path in engine_files()
        for line, module, level in imports(path)
        if level == 0 and module.partition(".")[0] in WORLD and path != DISK and not is_test_kit(path)
    ]
    assert worldly == []


def test_imports_inside_the_broker_are_relative() -> None:
    absolute = [
        place(path, line)
        for path in own_python()
        if path.is_relative_to(ROOT / "broker") and "management" not in path.parts
        for line, module, level in imports(path)
        if level == 0 and module.partition(".")[0] == "broker"
    ]
    assert absolute == []


def test_nothing_below_imports_the_console() -> None:
    upward = [
        place(path, line)
        for path in own_python()
        if path.relative_to(ROOT).parts[0] in {"broker", "spark"}
        for line, module, level in imports(path)
        if level == 0 and module.partition(".")[0] == "console"
    ]
    assert upward == []
