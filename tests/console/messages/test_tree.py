"""JSON as a tree: everything as it was written, however deep, many or odd."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest
from django.template import Context, Template
from hypothesis import given
from hypothesis import strategies as st

from console.features.messages.tree import TREE_LIMIT, Node, tree_of
from tests.console.stage import HOSTILE

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
).filter(lambda value: isinstance(value, list | dict))


def written(nodes: list[Node]) -> str:
    """The JSON that a tree says."""
    texts = []
    for node in nodes:
        end = {"{": "}", "[": "]"}.get(node.sign, "")
        inner = f"{node.sign}{written(node.members)}{end}" if node.sign else node.text
        texts.append(f"{node.key}:{inner}" if node.key else inner)
    return ",".join(texts)


def counted(nodes: list[Node]) -> int:
    return len(nodes) + sum(counted(node.members) for node in nodes)


class Balance(HTMLParser):
    """Fails where an element is closed that is not the one that is open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.deepest = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.deepest = max(self.deepest, len(self.open))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def drawn(text: str) -> str:
    return Template("{% load bodies %}{% json_tree text %}").render(Context({"text": text}))


@given(VALUES)
def test_a_tree_says_what_the_text_says(value: object) -> None:
    nodes, is_cut = tree_of(json.dumps(value))
    assert is_cut is False
    assert json.loads(written(nodes)) == value


def test_numbers_and_double_keys_stay_as_they_are() -> None:
    text = '{"id":12345678901234567890123,"p":1.10,"p":2e400,"u":"\\u003cb"}'
    assert written(tree_of(text)[0]) == text


@pytest.mark.parametrize(
    "text", ["[" + "1," * 50_000 + "1]", "[" * 900 + "]" * 900, '{"a":' * 5_000 + "1" + "}" * 5_000]
)
def test_what_is_too_much_is_cut_and_closed(text: str) -> None:
    nodes, is_cut = tree_of(text)
    assert is_cut
    assert counted(nodes) <= TREE_LIMIT
    parser = Balance()
    parser.feed(drawn(text))
    assert parser.open == []


@pytest.mark.parametrize("text", HOSTILE)
def test_names_and_values_stay_text(text: str) -> None:
    html = drawn(json.dumps({text: [text, {text: "\u202e"}]}, ensure_ascii=False))
    assert "<script" not in html and "<img" not in html and "<svg" not in html and "<hx" not in html
    assert "\u202e" not in html
    parser = Balance()
    parser.feed(html)
    assert parser.open == []
