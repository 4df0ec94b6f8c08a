"""Imports go in no circle, and what only one neighbour uses stands with it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.house.sources import ROOT, own_python, tree

PRODUCT = ("broker", "console", "spark")
#: A module of so few lines that one other in its folder imports belongs into that one.
FEW_LINES = 80
#: Those who put together what is looked for by its own name: addresses, processes, formats of services.
ASSEMBLIES = ("urls.py", "asgi.py", "__main__.py", "registry.py")
#: How many such modules there are still; the number only falls.
MOST_ALONE = 0


def name_of(path: Path) -> str:
    """The dotted name of a module."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def modules() -> dict[str, Path]:
    return {name_of(path): path for path in own_python() if path.relative_to(ROOT).parts[0] in PRODUCT}


def imported(name: str, path: Path) -> Iterator[str]:
    """Own modules that a module imports, wherever it does: for types only, and inside of functions, too."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules())
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                if whole in modules() or base in modules():
                    yield whole if whole in modules() else base


@cache
def arrows() -> dict[str, set[str]]:
    return {name: set(imported(name, path)) - {name} for name, path in modules().items()}


def test_no_imports_go_in_a_circle() -> None:
    try:
        TopologicalSorter(arrows()).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(reversed(error.args[1]))) from None


def test_small_modules_stand_with_the_one_that_uses_them() -> None:
    users: dict[str, set[str]] = {name: set() for name in modules()}
    for name, others in arrows().items():
        for other in others:
            users[other].add(name)
    alone = sorted(
        f"{name} belongs into {next(iter(by))}"
        for name, by in users.items()
        if len(by) == 1 and next(iter(by)).rpartition(".")[0] == name.rpartition(".")[0]
        if modules()[name].name not in ("__init__.py", "models.py", "admin.py", "apps.py")
        if modules()[next(iter(by))].name not in ASSEMBLIES
        if len(modules()[name].read_text().splitlines()) < FEW_LINES
    )
    assert len(alone) <= MOST_ALONE, "\n".join(alone)
    assert len(alone) == MOST_ALONE, f"MOST_ALONE may fall to {len(alone)}"
