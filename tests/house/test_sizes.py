"""Files and functions stay small enough to be read at once."""

from __future__ import annotations

import ast

from tests.house.sources import own_python, place, tree

#: A file is one subject, mostly 100 to 400 lines; this is where it is certainly two.
FILE_LINES = 800
FUNCTION_LINES = 60


def test_files_have_at_most_800_lines() -> None:
    long = {place(path): len(path.read_text().splitlines()) for path in own_python()}
    assert {name: lines for name, lines in long.items() if lines > FILE_LINES} == {}


def test_functions_have_at_most_60_lines() -> None:
    long = []
    for path in own_python():
        for node in ast.walk(tree(path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    long.append(f"{place(path, node.lineno)} {node.name}: {lines}")
    assert long == []
