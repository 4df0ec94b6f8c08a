"""The reference of the API, from the docstrings of what the wheel has: `make reference` writes it to build/reference.

    python docs/reference.py DIRECTORY

Names are those in the wheel: its tree is made beside, as hatch_build.py makes it. A comment `#: ...` above a name says
what it is, as a docstring below it would. What is public and says nothing of itself ends the build with 1.
"""

from __future__ import annotations

import ast
import importlib
import sys
import tempfile
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import django
import pdoc
from django.conf import settings
from pdoc.doc import Class, Doc, Function, Module

ROOT = Path(__file__).parents[1]
PACKAGE = "escapement_mq"
#: what is public, in the order of the first page
PUBLIC = (
    "client", "client.errors", "client.names", "client.credentials", "client.admin", "client.timers",
    "client.transactions", "client.remoting", "client.handlers", "outbox", "handlers", "django", "tasks", "celery",
    "testing", "redisson",
)  # fmt: skip
APPS = [f"{PACKAGE}.{name}" for name in ("outbox", "handlers", "tasks")]
#: a TypedDict does not keep what it was made from, and Django's tasks have one parameter here and two there
KNOWN = ("Cannot determine where .* is taken from", "Error parsing type annotation TaskResult")


def main() -> int:
    """Write the reference to the directory that is named; return 1 where something public says nothing of itself."""
    directory = Path(sys.argv[1])
    for message in KNOWN:
        warnings.filterwarnings("ignore", message)
    with tempfile.TemporaryDirectory() as tree:
        _furnish(Path(tree))
        modules = [_filled(f"{PACKAGE}.{name}") for name in PUBLIC]
        silent = [doc.fullname for module in modules for doc in _public(module) if not doc.docstring.strip()]
        pdoc.render.configure(docformat="google", show_source=False, footer_text=f"{PACKAGE} {_version()}")
        pdoc.pdoc(*(module.fullname for module in modules), output_directory=directory)
    sys.stdout.write(f"{len(modules)} modules: {directory / 'index.html'}\n")
    sys.stderr.writelines(f"{name} says nothing of itself\n" for name in silent)
    return 1 if silent else 0


def _furnish(tree: Path) -> None:
    """Make the tree of the wheel, before any other in the search for modules, and what Django's apps need."""
    sys.path.insert(0, str(ROOT))
    from hatch_build import move

    move(ROOT, tree / PACKAGE)
    for path in (tree / PACKAGE).rglob("*.py"):
        path.write_text(described(path.read_text()))
    sys.path.insert(0, str(tree))
    settings.configure(INSTALLED_APPS=["django.contrib.contenttypes", "django_tasks", *APPS], USE_TZ=True)
    django.setup()


def described(source: str) -> str:
    """Return a module's text with `#:` comments as docstrings, where they stand above what is assigned."""
    lines = source.splitlines()
    for node in sorted(ast.walk(ast.parse(source)), key=lambda node: -getattr(node, "lineno", 0)):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.end_lineno is None:
            continue
        above = node.lineno - 1
        while above and lines[above - 1].lstrip().startswith("#:"):
            above -= 1
        text = " ".join(line.strip().removeprefix("#:").strip() for line in lines[above : node.lineno - 1])
        if text:
            lines.insert(node.end_lineno, " " * node.col_offset + repr(text))
    return "\n".join(lines) + "\n"


def _filled(name: str) -> Module:
    """Return a module that has all that it names: some packages load what is asked for at its first use."""
    loaded = importlib.import_module(name)
    public = {each: getattr(loaded, each) for each in getattr(loaded, "__all__", ())}
    for each, value in public.items():
        setattr(loaded, each, value)
        if isinstance(value, type):
            _fill(value, set(public.values()) - {value})
    return Module(loaded)


def _fill(made: type, public: Collection[object]) -> None:
    """Give a class what it has from classes that have no page of their own, where pdoc would only name it."""
    for base in made.__mro__[1:]:
        if base.__module__.startswith(PACKAGE) and base not in public:
            for name, value in vars(base).items():
                if name[0] != "_" and isinstance(value, FunctionType | property) and name not in vars(made):
                    setattr(made, name, value)


def _public(module: Module) -> Iterator[Doc[Any]]:
    """Yield the module, its classes and functions, and what those have that has no leading underscore."""
    yield module
    for each in module.members.values():
        if isinstance(each, Class | Function):
            yield each
        if isinstance(each, Class):
            yield from (own for own in each.own_members if isinstance(own, Function) and not own.name.startswith("_"))


def _version() -> str:
    """Return what pyproject.toml says."""
    import tomllib

    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


if __name__ == "__main__":
    sys.exit(main())
