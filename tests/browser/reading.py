"""What a page says to who reads it in Chinese: the words that are English, and signs of a sentence that stand apart.

Words that a translation itself uses are meant (RocketMQ's own, names of products), and so are names of settings and
what stands where data and code stand. Everything else is a sentence that somebody forgot.
"""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser

from tests.console.stage import HOSTILE
from tests.console.ui.test_languages import SOURCE, entries

_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
#: elements and classes that hold data, code, or what is drawn of them
_ELEMENTS = {"script", "style", "code", "pre", "kbd", "bdi", "textarea", "datalist"}
_CLASSES = {"mono", "chip", "printed"}
_WORD = re.compile(r"(?<![\w./:@%-])[A-Za-z]{2,}(?![\w/:@=-])")
#: a length of time in signs of English, though they are in settings of a broker that translations name; classes of a
#: histogram ("< 10 ms") are called by the run of Spark that made them
_UNIT = re.compile(r"(?<![\d<=])(?<![<=] )\b\d+ (?:ms|min|[shd])\b")
_APART = re.compile(r"\w [;,.\uff1b\uff0c\u3002\u3001](?= |$)")
#: formats, products, and what a broker or Redis says itself
_NAMES = {
    "Connection", "Error", "Microsoft", "Slack", "Teams", "connecting", "deflate", "false", "refused", "true", "zlib",
    "zstd",
}  # fmt: skip
#: what tests/browser/everything.py calls its things, and the reasons that it gives
_DATA = {
    "alert", "anna", "bil", "billing", "demo", "invoices", "is", "late", "ledger", "level", "mail", "operator",
    "odd", "orders", "paid", "pay", "payers", "sc", "scheduled", "script", "seats", "shop", "show", "shown", "silent",
    "stuck", "tests", "to", "twice",
}  # fmt: skip


class _Read(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._open: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in _VOID:
            return
        is_data = tag in _ELEMENTS or bool(_CLASSES & set((given.get("class") or "").split()))
        is_out = is_data or given.get("lang") == "en" or given.get("name") == "zone"
        self._open.append((tag, is_out or bool(self._open and self._open[-1][1])))

    def handle_endtag(self, tag: str) -> None:
        if tag in {each for each, _ in self._open}:
            while self._open.pop()[0] != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not self._open or not self._open[-1][1]:
            self.texts.append(data)


@cache
def _meant() -> frozenset[str]:
    translated = " ".join(entries(SOURCE.read_text(encoding="utf-8")).values())
    return frozenset(re.findall(r"[A-Za-z]{2,}", re.sub(r"%\(\w+\)s|\{\w*\}", "", translated)))


def left_in_english(html: str) -> list[str]:
    """Words of a page in Chinese that no translation has."""
    text = " ".join(_texts(html))
    for hostile in HOSTILE:
        text = text.replace(hostile, "")
    found = {word for word in _WORD.findall(text) if word not in _meant() | _NAMES | _DATA and not _is_name(word)}
    return [*sorted(found), *sorted(set(_UNIT.findall(text)))]


def apart(html: str) -> list[str]:
    """Signs that end a part of a sentence, with a blank before them."""
    return _APART.findall(" ".join("".join(_texts(html)).split()))


def _texts(html: str) -> list[str]:
    reader = _Read()
    reader.feed(html)
    return reader.texts


def _is_name(word: str) -> bool:
    """`camelCase` is a setting of a broker or a type, as is what is written in capitals."""
    return word.upper() == word or bool(re.search(r"[a-z][A-Z]", word))
