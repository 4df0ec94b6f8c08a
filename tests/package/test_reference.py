"""The reference of the API: it can be made, nothing public is silent, and what the documents name is there."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.reference import PUBLIC, described
from tests.house.sources import ROOT, place, tracked

PAGES = [path for path in tracked(".md") if path == ROOT / "README.md" or path.is_relative_to(ROOT / "docs")]
#: a name with at least one part behind the package
NAMED = re.compile(r"\bescapement_mq((?:\.\w+)+)")
EXAMPLE = re.compile(r"^```python[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_it_is_made_and_nothing_public_is_silent(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "docs/reference.py", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    pages = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.html")}
    assert pages == {"index.html", *(f"escapement_mq/{name.replace('.', '/')}.html" for name in PUBLIC)}
    client = (tmp_path / "escapement_mq" / "client.html").read_text()
    assert all(f'id="{name}"' in client for name in ("Producer.send", "Consumer.on", "AsyncAdmin.timers", "DeadLetter"))
    assert "broker.client" not in client


def test_a_comment_says_what_a_name_is() -> None:
    text = (
        "#: how many\n#: there are\nCOUNT = (\n    3\n)\n"
        "class A:\n    # not this\n    x: int = 0\n    #: a name\n    y: str\n"
    )
    assert described(text) == text.replace(")\n", ")\n'how many there are'\n").replace("str\n", "str\n    'a name'\n")


def names(page: Path) -> Iterator[tuple[str, str]]:
    """Module and name, "" for none, of what a page names: in its text, and in the imports of its examples."""
    text = page.read_text()
    for dotted in NAMED.findall(text):
        yield dotted.removeprefix("."), ""
    for example in EXAMPLE.findall(text):
        for node in ast.walk(ast.parse(example)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "escapement_mq":
                for alias in node.names:
                    yield str(node.module).removeprefix("escapement_mq").removeprefix("."), alias.name


def is_there(dotted: str, name: str) -> bool:
    """Whether there is such a module, or something of this name in one."""
    module, rest = "broker", [*filter(None, dotted.split(".")), *filter(None, [name])]
    while rest:
        try:
            importlib.import_module(f"{module}.{rest[0]}")
        except ModuleNotFoundError:
            break
        module = f"{module}.{rest.pop(0)}"
    found = importlib.import_module(module)
    for part in rest:
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


@pytest.mark.parametrize("page", PAGES, ids=place)
def test_what_a_page_names_is_there(page: Path) -> None:
    assert sorted({each for each in names(page) if not is_there(*each)}) == []


@pytest.mark.parametrize("page", PAGES, ids=place)
def test_what_an_example_imports_is_public(page: Path) -> None:
    imported = {each for each in names(page) if each[1]}
    assert {f"{module}.{name}" for module, name in imported if module and module not in PUBLIC} <= set(PUBLIC)
