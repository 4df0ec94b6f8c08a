"""RocketMQ's words stand once, in broker/rocketmq/."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from broker.rocketmq import properties, topics
from tests.house.sources import ROOT, own_python, place, tree

#: Names and prefixes of RocketMQ's topics and groups, long enough to be nothing else.
TOPIC_WORDS = tuple(
    value for name, value in vars(topics).items() if name.isupper() and isinstance(value, str) and len(value) > 4
)

#: Names of properties that are nothing else either.
PROPERTIES = frozenset(
    value for name, value in vars(properties).items() if name.isupper() and isinstance(value, str) and "_" in value
)


def elsewhere() -> list[Path]:
    """What is built on those words."""
    rooms = {"broker", "console", "spark"}
    places = ((path, path.relative_to(ROOT).parts) for path in own_python())
    return [path for path, parts in places if parts[0] in rooms and parts[:2] != ("broker", "rocketmq")]


def texts(module: ast.Module) -> Iterator[tuple[str, int]]:
    """Texts in code with their lines; what stands alone is a docstring."""
    alone = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value, node.lineno


def test_topics_are_named_by_their_constants() -> None:
    assert len(TOPIC_WORDS) > 15
    found = []
    for path in elsewhere():
        for text, line in texts(tree(path)):
            # a text with blanks is for people
            if " " not in text and any(word in text for word in TOPIC_WORDS):
                found.append(place(path, line))
    assert found == []


def test_properties_are_named_by_their_constants() -> None:
    assert len(PROPERTIES) > 40
    found = []
    for path in elsewhere():
        found += [place(path, line) for text, line in texts(tree(path)) if text in PROPERTIES]
    assert found == []
