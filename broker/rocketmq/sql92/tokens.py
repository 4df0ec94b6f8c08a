"""The words of a filter expression."""

from __future__ import annotations

import re
from typing import NamedTuple

LONGEST_EXPRESSION = 65_536
MOST_TOKENS = 10_000

KEYWORDS = frozenset(
    {"NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH"}
)
FLOAT, WHOLE, STRING, NAME, END = "number", "whole number", "string", "name", "the end"

_TOKEN = re.compile(
    r"""
    (?P<blank> [ \t\n\r\f]+ | --[^\n\r]* | /\*.*?\*/ )
  | (?P<float> [0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+ )
  | (?P<whole> 0 | [1-9][0-9]*[lL]? )
  | (?P<string> '(?:''|[^'])*' )
  | (?P<name> [a-zA-Z_$][a-zA-Z0-9_$]* )
  | (?P<sign> <> | <= | >= | [=<>(),+-] )
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {"float": FLOAT, "whole": WHOLE, "string": STRING, "name": NAME}


class BadExpression(ValueError):
    """An expression that cannot be understood; the message says where and why."""


class Token(NamedTuple):
    """One word: its kind (of keywords and signs the word itself, in capitals), its text and where it begins."""

    kind: str
    text: str
    at: int


def tokens(expression: str) -> list[Token]:
    """Return all words, and an END. Raises BadExpression."""
    if len(expression) > LONGEST_EXPRESSION:
        raise BadExpression(f"The expression has more than {LONGEST_EXPRESSION:,} characters.")
    found: list[Token] = []
    at = 0
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        if match is None:
            raise BadExpression(f"{expression[at : at + 20]!r} at character {at + 1} is no part of an expression.")
        if match[0] == "0" and expression[match.end() : match.end() + 1].isdigit():
            raise BadExpression(f"{expression[at : at + 20]!r} at character {at + 1}: a number does not begin with 0.")
        if match.lastgroup != "blank":
            found.append(_token(match.lastgroup or "", match[0], at))
            if len(found) > MOST_TOKENS:
                raise BadExpression(f"The expression has more than {MOST_TOKENS:,} words.")
        at = match.end()
    found.append(Token(END, "", at))
    return found


def _token(group: str, text: str, at: int) -> Token:
    upper = text.upper()
    if group == "sign" or (group == "name" and upper in KEYWORDS):
        return Token(upper, text, at)
    return Token(_KINDS[group], text[1:-1].replace("''", "'") if group == "string" else text, at)
