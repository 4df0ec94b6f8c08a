"""JSON as a tree that folds: its members as they were written, up to a number and a depth.

Tokens stay as they are: big numbers, 1.10, keys that are there twice. Nothing here builds a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

#: members that are drawn at most: a page stays below 100 kB; and how deep they may stand
TREE_LIMIT, TREE_DEPTH = 500, 64
#: so deep members are in sight before anything is unfolded
_UNFOLDED = 2


@dataclass(slots=True)
class Node:
    """A member of an object or a list. Texts are untrusted."""

    #: "{" or "[" for what holds others, "" for a value
    sign: str = ""
    #: the name of the member, quoted as it was written; "" in a list
    key: str = ""
    text: str = ""
    is_unfolded: bool = False
    members: list[Node] = field(default_factory=list)


def tree_of(text: str) -> tuple[list[Node], bool]:
    """Return a JSON value with what it holds, and whether there is more than is drawn."""
    root = Node("[")
    around, count = [root], 0
    name, is_name = "", False
    for piece in pieces(text):
        if piece in ("}", "]"):
            around.pop()
        elif piece == ",":
            is_name = around[-1].sign == "{"
        elif piece == ":":
            is_name = False
        elif is_name:
            name = piece
        elif count == TREE_LIMIT or len(around) > TREE_DEPTH:
            return root.members, True
        else:
            node = Node(piece if piece in ("{", "[") else "", name, piece, len(around) <= _UNFOLDED)
            around[-1].members.append(node)
            name, count = "", count + 1
            if node.sign:
                around.append(node)
                is_name = node.sign == "{"
    return root.members, False


def pieces(text: str) -> Iterator[str]:
    """Yield strings whole, brackets, commas and colons alone, other tokens in pieces; no blanks. `text` is JSON."""
    at = 0
    while at < len(text):
        end = at + 1
        if text[at] == '"':
            while text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            end += 1
        elif text[at] not in "{}[],: \t\r\n":
            while end < len(text) and text[end] not in '{}[],: \t\r\n"':
                end += 1
        if not text[at].isspace():
            yield text[at:end]
        at = end
