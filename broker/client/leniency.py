"""Reading the JSON that Apache RocketMQ's fastjson writes but a strict reader refuses.

Two forms appear in answers: bare integers as keys (requests 106 and 45: ``{0:"127.0.0.1:10911"}``) and whole
objects as keys (202 and 208: ``{{"queueId":0,"topic":"T"}:{"maxOffset":3}}``).

`read_json` gives integers as text keys, as strict JSON would, and an object whose keys are objects as a `Table`.
"""

from __future__ import annotations

import json
from typing import Union

from .errors import BadAnswer

Json = Union[str, int, float, bool, None, list["Json"], dict[str, "Json"], "Table"]

MAX_DEPTH = 32
_BLANKS = " \t\n\r"
_DECODER = json.JSONDecoder()


class Table(list[tuple[dict[str, Json], Json]]):
    """An object whose keys are objects: its pairs, in order."""


def read_json(body: bytes) -> Json:
    """The value in `body`; raises BadAnswer. Strict JSON takes the fast way, only the rest this module's own."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadAnswer(f"The answer is not UTF-8: {error}") from None
    try:
        strict: Json = json.loads(text)
    except RecursionError:
        raise BadAnswer("The answer is nested too deeply.") from None
    except ValueError:
        return _Reader(text).whole()
    return strict


def read_object(body: bytes) -> dict[str, Json]:
    """The object in `body`; raises BadAnswer when it is something else."""
    value = read_json(body)
    if not isinstance(value, dict):
        raise BadAnswer(f"The answer should be a JSON object, it begins with {body[:40]!r}.")
    return value


class _Reader:
    """Recursive descent over one text; `at` is the index of the next character."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> Json:
        value = self._value(0)
        self._skip_blanks()
        if self._at != len(self._text):
            raise self._error("more text after the value")
        return value

    def _value(self, depth: int) -> Json:
        if depth > MAX_DEPTH:
            raise self._error("nested too deeply")
        first = self._peek()
        if first == "{":
            return self._object(depth)
        if first == "[":
            return self._array(depth)
        return self._scalar()

    def _object(self, depth: int) -> dict[str, Json] | Table:
        self._expect("{")
        names: dict[str, Json] = {}
        pairs = Table()
        if self._peek() == "}":
            self._expect("}")
            return names
        while self._at < len(self._text):
            key = self._value(depth + 1)
            self._expect(":")
            value = self._value(depth + 1)
            if isinstance(key, dict):
                pairs.append((key, value))
            elif isinstance(key, str | int) and not isinstance(key, bool):
                names[str(key)] = value
            else:
                raise self._error("a key is neither text, an integer nor an object")
            if self._ends("}"):
                break
        else:
            raise self._error("an object does not end")
        if pairs and names:
            raise self._error("an object mixes kinds of keys")
        return pairs or names

    def _array(self, depth: int) -> list[Json]:
        self._expect("[")
        values: list[Json] = []
        if self._peek() == "]":
            self._expect("]")
            return values
        while self._at < len(self._text):
            values.append(self._value(depth + 1))
            if self._ends("]"):
                break
        else:
            raise self._error("a list does not end")
        return values

    def _ends(self, closing: str) -> bool:
        """Step over a comma (False) or the closing character (True)."""
        if self._peek() == ",":
            self._at += 1
            return False
        self._expect(closing)
        return True

    def _scalar(self) -> Json:
        """Text, number, true, false or null: the strict reader reads one from where this one stands."""
        scalar: Json
        try:
            scalar, self._at = _DECODER.raw_decode(self._text, self._at)
        except ValueError:
            raise self._error("a value expected") from None
        return scalar

    def _peek(self) -> str:
        self._skip_blanks()
        return self._text[self._at] if self._at < len(self._text) else ""

    def _expect(self, character: str) -> None:
        if self._peek() != character:
            raise self._error(f"{character!r} expected")
        self._at += 1

    def _skip_blanks(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in _BLANKS:
            self._at += 1

    def _error(self, what: str) -> BadAnswer:
        return BadAnswer(f"The answer is not readable at character {self._at}: {what}.")
