"""Names and words that this house does not use."""

from __future__ import annotations

import ast
import re

from tests.house.sources import ROOT, own_python, place, tracked, tree

#: A file with such a name has no subject.
FILE_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "base", "misc", "stuff", "tools"}
#: Spelt in halves, so that this file does not break its own rule.
LEFT_FOR_LATER = re.compile("|".join(["TO" + "DO", "FIX" + "ME", r"\bXX" + "X:", "HA" + "CK:"]))
SKIPPED = re.compile("|".join([r"mark\.sk" + "ip", r"pytest\.sk" + "ip", "importor" + "skip", "pragma: no " + "cover"]))
ELSEWHERE = re.compile(r"(?<![\w.])/" + r"(?:work|home|root|Users)/\w")
TEXT = (".py", ".md", ".html", ".js", ".css", ".toml", ".txt", ".in", ".java", ".xml", ".sh", ".po")


def test_no_file_has_a_name_without_a_subject() -> None:
    assert [place(path) for path in own_python() if path.stem in FILE_NAMES] == []


def test_nothing_is_left_for_later() -> None:
    own = [path for path in tracked(*TEXT) if "vendor" not in path.parts]
    assert [place(path) for path in own if LEFT_FOR_LATER.search(path.read_text())] == []


def test_nothing_unfinished_is_raised() -> None:
    found = []
    for path in own_python():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Name) and node.id == "NotImplemented" + "Error":
                found.append(place(path, node.lineno))
    assert found == []


def test_docstrings_of_the_product_say_something() -> None:
    """Four words at least: fewer repeat the name."""
    described = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    short = [
        f"{place(path, getattr(node, 'lineno', 1))}: {text}"
        for path in own_python()
        if not path.is_relative_to(ROOT / "tests")
        for node in ast.walk(tree(path))
        if isinstance(node, described) and (text := ast.get_docstring(node)) is not None and len(text.split()) < 4
    ]
    assert short == []


def test_no_test_is_left_out() -> None:
    assert [place(path) for path in own_python() if SKIPPED.search(path.read_text())] == []


def test_every_ignore_names_its_code_and_its_reason() -> None:
    bare_type = r"#\s*type:\s*ignore(?!\[[\w,\- ]+\]\s+#\s*\S)"
    bare_lint = r"#\s*noqa(?!:\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*\s+[-#(]\s*\w)"
    # behind the reason that stands there for ruff, or with one of its own
    bare_scan = r"(?<!#)\s#\s*nosec(?!\s+B\d+(?:\s+B\d+)*(?:\s+-\s*\w|$))|^(?!.*#\s*noqa).*#\s*nosec(?:\s+B\d+)*\s*$"
    bare = re.compile(f"{bare_type}|{bare_lint}|{bare_scan}")
    found = []
    for path in own_python():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if path.parts[-2:] != ("house", "test_names.py") and bare.search(line):
                found.append(place(path, number))
    assert found == []


def test_no_path_of_one_machine_is_committed() -> None:
    found = []
    for path in tracked(*TEXT, "", ".yml", ".yaml", ".json"):
        if path.stat().st_size > 1 << 20:
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if ELSEWHERE.search(line):
                found.append(place(path, number))
    assert found == []


def test_every_module_reads_annotations_late() -> None:
    missing = []
    for path in own_python():
        if any(not isinstance(node, ast.Expr) for node in tree(path).body):
            future = [node for node in tree(path).body if isinstance(node, ast.ImportFrom)]
            if not any(node.module == "__future__" for node in future):
                missing.append(place(path))
    assert missing == []


def test_the_top_level_is_the_one_that_was_drawn() -> None:
    directories = {path.relative_to(ROOT).parts[0] for path in tracked() if path.parent != ROOT}
    drawn = {".ci", "bench", "broker", "console", "docs", "requirements", "spark", "static", "templates"}
    assert directories <= drawn | {"tests"}
