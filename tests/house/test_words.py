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
#: words of documents that are names there: a *span* is OpenTelemetry's
NAMES = {("docs/CLIENT.md", "a span")}
#: quoted in a document: blocks and pieces of code, and where links lead
_QUOTED = re.compile(r"^([ >]*)```.*?^\1```|`[^`]*`|\]\([^)\s]*\)", re.DOTALL | re.MULTILINE)
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


def sentences(*rooms: str) -> Iterator[tuple[str, str]]:
    """Texts of these packages' Python: those with a blank that describe no code, and where they stand."""
    for path in own_python():
        if path.relative_to(ROOT).parts[0] not in rooms:
            continue
        described = {id(node.value) for node in ast.walk(tree(path)) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree(path)):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described
            if is_text and " " in str(node.value).strip() and node.value not in KEPT:
                yield place(path, node.lineno), str(node.value)


def documents() -> Iterator[tuple[str, str]]:
    """The prose of README and documents, without what is quoted, and where it stands; decisions are history."""
    for path in tracked(".md"):
        if path.parent not in (ROOT, ROOT / "docs"):
            continue
        text = path.read_text()
        if path.name == "GLOSSARY.md":  # without the words that are never used
            text = re.sub(r"^(\|[^|\n]*\|[^|\n]*\|[^|\n]*\|)[^|\n]*\|$", r"\1", text, flags=re.MULTILINE)
        yield place(path), " ".join(_QUOTED.sub(" ", text).split())


def found_in(texts: Iterator[tuple[str, str]]) -> list[tuple[str, str]]:
    """What of the glossary's last column stands in these, and where."""
    return [(where, word) for where, text in texts for word in forbidden(text) if (where, word.lower()) not in NAMES]


def test_the_glossary_is_read() -> None:
    assert len(rows()) > 50
    assert sum(len(row.never) for row in rows()) > 80
    assert forbidden("Look at it…") and forbidden("Held") and not forbidden("Held in memory")
    assert [row.english for row in rows() if not row.chinese] == []


def test_what_a_document_quotes_is_no_word_of_ours() -> None:
    read = dict(documents())
    assert {"README.md", "docs/GLOSSARY.md", "docs/REST.md"} <= read.keys()
    assert _QUOTED.sub("", "of `the moment` [moment](the-moment.md)\n```\na moment\n```") == "of  [moment\n"
    assert {(where, word) for where, word in NAMES if word not in read[where]} == set()


@pytest.mark.parametrize("kind", ["msgid", "template", "python", "document"])
def test_no_text_has_a_word_that_was_replaced(kind: str) -> None:
    texts: dict[str, Iterator[tuple[str, str]]] = {
        "msgid": ((source, source) for source in entries(SOURCE.read_text(encoding="utf-8"))),
        "template": (
            (place(path), " ".join(_TAGS.sub(" ", path.read_text()).split()))
            for path in tracked(".html")
            if path.relative_to(ROOT).parts[0] == "templates"
        ),
        "python": sentences("console", "broker", "spark", "bench"),
        "document": documents(),
    }
    assert found_in(texts[kind]) == []


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


#: what was, and what is still to do, may quote a word that is no more
_QUOTING = {"CHANGELOG.md", "docs/NEXT.md", "docs/GLOSSARY.md"}


def test_a_delay_level_has_one_name() -> None:
    """In code a *lane* holds the messages of one level; who reads pages and documents has the one word for both."""
    other = re.compile(r"(?<![\w/.-])lanes?(?![\w-])", re.IGNORECASE)
    texts = [(source, source) for source in entries(SOURCE.read_text(encoding="utf-8"))]
    texts += [
        (place(path), _TAGS.sub(" ", path.read_text()))
        for path in tracked(".html")
        if path.relative_to(ROOT).parts[0] == "templates"
    ]
    texts += [(where, text) for where, text in documents() if where not in _QUOTING]
    assert other.search("the lanes of") and len(texts) > 2_000
    assert [where for where, text in texts if other.search(text)] == []
