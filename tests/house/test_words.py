"""What people read has the words of docs/GLOSSARY.md, and not those that they replaced."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest

from tests.console.ui.test_languages import SOURCE, entries
from tests.house.sources import ROOT, own_python, place, tracked, tree

#: what a template says by itself: no tags of its language, no markup
_TAGS = re.compile(r"{%.*?%}|{{.*?}}|{#.*?#}|<!--.*?-->|<[^>]*>", re.DOTALL)
#: what the audit keeps as the permission of whoever approves
KEPT = {"second person"}
#: what stands for a value
_NAMES = re.compile(r"%\(\w+\)s|\{\w+\}")
#: a Chinese cell that ends so names the usual word only: others stand for it where a sentence needs them
OPEN = "…"


@dataclass(frozen=True, slots=True)
class Row:
    """A word of the first table: its Chinese words, and what it replaced."""

    english: str
    chinese: tuple[str, ...]
    never: tuple[str, ...]


@cache
def rows() -> tuple[Row, ...]:
    """The rows of the first table with four columns."""
    text = (ROOT / "docs" / "GLOSSARY.md").read_text()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "]
    table = [each for each in cells if len(each) == 4 and each[0] != "English"]
    return tuple(Row(each[0], _parts(each[1], "/"), _parts(each[3], ";")) for each in table)


def _parts(cell: str, separator: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in cell.split(separator) if part.strip())


@cache
def _forbidden() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What stands nowhere in a text, and what is no text of its own (in backquotes)."""
    never = [phrase for row in rows() for phrase in row.never]
    inside = "|".join(re.escape(phrase) for phrase in never if not phrase.startswith("`"))
    alone = "|".join(re.escape(phrase.strip("`")) for phrase in never if phrase.startswith("`"))
    return re.compile(rf"(?<![\w/-])(?:{inside})(?![\w-])", re.IGNORECASE), re.compile(rf"(?:{alone})…?")


def forbidden(text: str) -> list[str]:
    """What of the glossary's last column stands in a text."""
    inside, alone = _forbidden()
    return inside.findall(_NAMES.sub("", text)) + ([text] if alone.fullmatch(text) else [])


def sentences() -> Iterator[tuple[str, str]]:
    """Texts of the console's Python: those with a blank that describe no code, and where they stand."""
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
            if is_text and " " in str(node.value).strip() and node.value not in KEPT:
                yield place(path, node.lineno), str(node.value)


def test_the_glossary_is_read() -> None:
    assert len(rows()) > 50
    assert sum(len(row.never) for row in rows()) > 80
    assert forbidden("Look at it…") and forbidden("Held") and not forbidden("Held in memory")
    assert [row.english for row in rows() if not row.chinese] == []


@pytest.mark.parametrize("kind", ["msgid", "template", "python"])
def test_no_text_has_a_word_that_was_replaced(kind: str) -> None:
    texts: dict[str, Iterator[tuple[str, str]]] = {
        "msgid": ((source, source) for source in entries(SOURCE.read_text(encoding="utf-8"))),
        "template": (
            (place(path), " ".join(_TAGS.sub(" ", path.read_text()).split()))
            for path in tracked(".html")
            if path.relative_to(ROOT).parts[0] == "templates"
        ),
        "python": sentences(),
    }
    assert [(where, found) for where, text in texts[kind] if (found := forbidden(text))] == []


def test_a_word_has_one_of_its_chinese_words() -> None:
    """Wherever a sentence has the English word its translation has the Chinese one."""
    texts = entries(SOURCE.read_text(encoding="utf-8"))
    found = []
    for row in rows():
        if row.chinese[-1] == OPEN:
            continue
        english = "|".join(re.escape(each) for each in _parts(row.english, ","))
        has_it = re.compile(rf"(?<![\w-])(?:{english})(?:s|es|d|led|ed)?(?![\w-])", re.IGNORECASE)
        for source, target in texts.items():
            if has_it.search(_NAMES.sub("", source)) and not any(word in target for word in row.chinese):
                found.append(f"{row.english}: {source} | {target}")
    assert found == []
