"""Templates and stylesheets can be read and reviewed; markup stands in templates."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import cssbeautifier

from tests.house.sources import ROOT, own_python, place, tracked, tree

COLUMNS = 120
#: what is drawn point by point, and filters that write one figure or moment, hundreds of times a page
MARKUP_IN_PYTHON = {
    "console/templatetags/charts.py",
    "console/templatetags/dashboards.py",
    "console/templatetags/escapement.py",
    "console/templatetags/snapshots.py",
    "console/templatetags/transactions.py",
    "console/ui/charts.py",
    "console/ui/time_charts.py",
    "console/ui/timer_charts.py",
}
#: for screen readers; to do it; heat, made of its number
SHORT = {"sr", "go", "h0", "h1", "h2", "h3", "h4", "h5"}
_CLASS = re.compile(r"\.([a-z][\w-]*)")
_NAME = re.compile(r"(?<![\w-])[a-z][\w-]*")
#: comments and addresses
_NO_SELECTOR = re.compile(r'/\*.*?\*/|"[^"]*"', re.DOTALL)
_MARKUP = re.compile(r"(?<!P)<[a-z][a-z0-9-]*(?:[\s>]|/>)|</[a-z]|&[a-z]+;")
_NO_SEMICOLON = re.compile(r"[^;{}\s/]\s*\}")
_VALUE_OVER_LINES = re.compile(r'\bvalue="[^"]*\n')


def own(suffix: str) -> list[Path]:
    """Files of ours with this ending that browsers are given."""
    return [
        path
        for path in tracked(suffix)
        if path.relative_to(ROOT).parts[0] in ("templates", "static") and "vendor" not in path.parts
    ]


def test_lines_of_templates_have_at_most_120_columns() -> None:
    long = [
        place(path, number)
        for path in own(".html")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > COLUMNS
    ]
    assert long == []


def test_stylesheets_are_in_their_form() -> None:
    """One declaration a line, as make format writes them."""
    options = cssbeautifier.default_options()
    options.indent_size, options.end_with_newline, options.space_around_combinator = 2, True, True
    sheets = {path: path.read_text() for path in own(".css") if path.parent.name == "css"}
    assert len(sheets) > 5
    assert [place(path) for path, text in sheets.items() if cssbeautifier.beautify(text, options) != text] == []
    assert [place(path) for path, text in sheets.items() if _NO_SEMICOLON.search(text)] == []
    assert [place(path) for path, text in sheets.items() if max(map(len, text.splitlines())) > COLUMNS] == []


def test_an_id_is_given_once_in_a_template() -> None:
    """A part that holds another one of its name cannot be replaced by it while the page is open."""
    found = []
    for path in own(".html"):
        ids = re.findall(r'(?<![\w-])id="([\w-]+)"|{% sheet (?:_\("[^"]*"\)|\S+) "([\w-]+)"', path.read_text())
        given = [one or other for one, other in ids]
        found += [f"{place(path)}: {name}" for name in set(given) if given.count(name) > 1]
    assert found == []


def classes() -> set[str]:
    """Classes that the console's stylesheets name; those of the plots begin with "u-"."""
    texts = [_NO_SELECTOR.sub("", path.read_text()) for path in own(".css") if path.parent.name == "css"]
    return {name for text in texts for name in _CLASS.findall(text) if not name.startswith("u-")}


def test_names_of_classes_can_be_read() -> None:
    assert {name for name in classes() if len(name) < 3} - SHORT == set()


def test_every_class_of_a_stylesheet_is_used() -> None:
    where = [*own(".html"), *own(".js"), *(path for path in own_python() if path.is_relative_to(ROOT / "console"))]
    used = set(_NAME.findall("\n".join(path.read_text() for path in where)))
    assert classes() - used - SHORT == set()


def test_what_a_form_sends_holds_no_line_break_of_the_template() -> None:
    assert [place(path) for path in own(".html") if _VALUE_OVER_LINES.search(path.read_text())] == []


def written_in_python() -> set[str]:
    """Modules of the console with markup in a text that is no docstring."""
    found = set()
    for path in own_python():
        if path.relative_to(ROOT).parts[0] != "console":
            continue
        described = {
            id(node.body[0].value)
            for node in ast.walk(tree(path))
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree(path)):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described
            if is_text and _MARKUP.search(str(node.value)):
                found.add(place(path))
    return found


def test_markup_stands_in_templates() -> None:
    assert written_in_python() == MARKUP_IN_PYTHON
