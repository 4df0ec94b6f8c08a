"""The build of the wheel: `broker/`, and `console/` and `spark/` with what they show, as one package `escapement_mq`.

    checkout                      wheel
    broker/client/...             escapement_mq/client/...
    console/, spark/              escapement_mq/console/, escapement_mq/spark/
    templates/, static/           escapement_mq/templates/, escapement_mq/static/

Three folders of such names are no names for packages in other people's environments. What is moved is named by its new
name: imports, and texts that are the name of a module (Django's settings have many). Everything else stays as it is.

An installation that is editable has one small package instead, beside the checkout on the path: in it
`escapement_mq.client` is `broker.client`.
"""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "escapement_mq"
#: folders that become the package itself, and parts of it
ROOT, PARTS = "broker", ("console", "spark")
SHOWN = ("templates", "static")
_DOTTED = re.compile(r"(?:broker|console|spark)(?:\.\w+)+(?::\w+)?\Z")
#: what is compiled is a distribution of its own
_LEFT_OUT = ("__pycache__", "*.pyc", "fast")

ALIAS = '''"""The package under the name that its users import, in a checkout: `{package}.client` is `{root}.client`."""

import importlib
import importlib.abc
import importlib.util
import sys


class _Alias(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def find_spec(self, name, path=None, target=None):
        if not name.startswith("{package}."):
            return None
        real = importlib.util.find_spec(_real(name))
        return None if real is None else importlib.util.spec_from_loader(
            name, self, is_package=real.submodule_search_locations is not None
        )

    def create_module(self, spec):
        module = importlib.import_module(_real(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module):
        # Python has just given it the specification of the other name
        module.__spec__ = module.__spec__.loader_state

    def get_source(self, name):
        return importlib.util.find_spec(_real(name)).loader.get_source(_real(name))

    def is_package(self, name):
        return importlib.util.find_spec(_real(name)).submodule_search_locations is not None


def _real(name):
    name = name.removeprefix("{package}.")
    return name if name.partition(".")[0] in {parts!r} else f"{root}.{{name}}"


sys.meta_path.insert(0, _Alias())
sys.modules[__name__] = importlib.import_module("{root}")
'''


class PackageHook(BuildHookInterface):
    """Hatchling's hook: it makes the tree, and has the wheel take it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the tree of this kind of wheel."""
        checkout = Path(self.root)
        made = checkout / "build" / version / PACKAGE
        shutil.rmtree(made, ignore_errors=True)
        if version == "editable":
            made.mkdir(parents=True)
            text = ALIAS.format(package=PACKAGE, root=ROOT, parts=PARTS)
            (made / "__init__.py").write_text(text)
            build_data["force_include_editable"][str(made)] = PACKAGE
        else:
            move(checkout, made)
            build_data["force_include"][str(made)] = PACKAGE


def move(checkout: Path, made: Path) -> None:
    """Copy what the wheel has to `made`, each module with the names that it has there."""
    copied = {ROOT: made, **{name: made / name for name in (*PARTS, *SHOWN)}}
    for name, target in copied.items():
        shutil.copytree(checkout / name, target, ignore=shutil.ignore_patterns(*_LEFT_OUT), dirs_exist_ok=True)
    modules = dict(_modules(checkout))
    for path in sorted(made.rglob("*.py")):
        path.write_text(renamed(path.read_text(), modules))


def _modules(checkout: Path) -> Iterator[tuple[str, Set[str]]]:
    """Return the dotted names of all modules and packages in the checkout, and the names that each defines."""
    for folder in (ROOT, *PARTS):
        for path in (checkout / folder).rglob("*.py"):
            parts = path.relative_to(checkout).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            yield name, frozenset(_defined(ast.parse(path.read_text())))


def _defined(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (each.id for each in targets if isinstance(each, ast.Name))


def renamed(source: str, modules: Mapping[str, Set[str]]) -> str:
    """Return a module's text with imports, and texts that name a module, under the names in the wheel.

    Raises ValueError for an import that would bind another name there.
    """
    lines = source.splitlines(keepends=True)
    places = sorted(_places(ast.parse(source), modules, lines), reverse=True)
    for line, column, old in places:
        text = lines[line].encode()
        before, after = text[:column].decode(), text[column:].decode()
        at = after.index(old)
        lines[line] = f"{before}{after[:at]}{moved(old)}{after[at + len(old) :]}"
    return "".join(lines)


def moved(name: str) -> str:
    """Return the name in the wheel of a module of the checkout."""
    first, _, rest = name.partition(".")
    if first == ROOT:
        return f"{PACKAGE}.{rest}" if rest else PACKAGE
    return f"{PACKAGE}.{name}"


def _places(tree: ast.AST, modules: Mapping[str, Set[str]], lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Return line, column in bytes, and old name of everything to rename."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and _is_ours(node.module):
            yield node.lineno - 1, node.col_offset + len("from"), str(node.module)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if not _is_ours(alias.name):
                    continue
                if alias.asname is None:
                    raise ValueError(f"line {node.lineno}: import {alias.name} as something.")
                yield alias.lineno - 1, alias.col_offset, alias.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _names(node.value, modules):
            if node.value not in lines[node.lineno - 1]:
                raise ValueError(f"line {node.lineno}: {node.value} must be written in one piece.")
            yield node.lineno - 1, node.col_offset, node.value


def _is_ours(name: str | None) -> bool:
    return name is not None and name.partition(".")[0] in (ROOT, *PARTS)


def _names(text: str, modules: Mapping[str, Set[str]]) -> bool:
    """Tell whether a text is the name of a module, or of what one defines: of two parts at least."""
    if not _DOTTED.match(text):
        return False
    name = text.replace(":", ".")
    first, _, last = name.rpartition(".")
    return name in modules or last in modules.get(first, ())
