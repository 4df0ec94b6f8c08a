"""Random filter expressions: as forms, and as they are written.

A form is a tuple, its word first.
"""

from __future__ import annotations

from random import Random
from typing import Any

Form = tuple[Any, ...]

NAMES = ["a", "b", "TAGS", "_x1", "$y"]
TEXTS = [
    "", "5", "-5", "+5", "05", "5.0", "5.", ".5", "5.5", "1e3", "5d", "5f", "0x1p3", "x", "abc", "it's", "true", "TRUE",
    "false", " 5", "5 ", "99999999999", "2147483647", "2147483648", "-2147483648", "9223372036854775807",
    "9223372036854775808", "NaN", "-0.0", "0", "Infinity", "-Infinity", "1e400", "\u0665", "-", "+", "e", ".",
]  # fmt: skip
STRINGS = ["", "x", "abc", "b", "5", "it's", "true", "5.5"]
WHOLES = ["0", "1", "5", "1000", "2147483647", "2147483648", "5L", "9223372036854775807", "9223372036854775808"]
FLOATS = ["5.0", "5.5", ".5", "5.", "1e3", "5.5E-1", "0.0", "1e400"]
WORDS = ["CONTAINS", "STARTSWITH", "ENDSWITH"]


def random_form(random: Random, depth: int = 3) -> Form:
    """Any form, mostly ones that are taken."""
    if depth == 0:
        return random_operand(random, 0)
    kind = random.randrange(12)
    if kind < 3:
        parts = [random_form(random, depth - 1) for _ in range(random.randint(2, 4))]
        return ("and" if random.random() < 0.5 else "or", parts)
    if kind == 3:
        return ("not", random_form(random, depth - 1))
    operand = random_operand(random, depth)
    is_not = random.random() < 0.4
    if kind < 6:
        return ("=" if random.random() < 0.6 else "<>", operand, random_operand(random, depth))
    if kind < 8:
        return ("order", random.choice(["<", "<=", ">", ">="]), operand, random_operand(random, depth))
    if kind == 8:
        return ("between", operand, random_operand(random, 0), random_operand(random, 0), is_not)
    if kind == 9:
        return ("in", operand, [random.choice(STRINGS) for _ in range(random.randint(1, 6))], is_not)
    if kind == 10:
        return ("text", random.choice(WORDS), operand, random.choice(STRINGS), is_not)
    return ("null", operand, is_not)


def random_operand(random: Random, depth: int) -> Form:
    """What stands beside a sign; seldom a whole condition."""
    kind = random.randrange(20)
    if kind < 10:
        return ("name", random.choice(NAMES))
    if kind < 13:
        return ("whole", random.choice(WHOLES))
    if kind < 15:
        return ("float", random.choice(FLOATS))
    if kind < 17:
        return ("string", random.choice(STRINGS))
    if kind == 17:
        return ("truth", random.choice([True, False, None]))
    if kind == 18:
        return (random.choice(["minus", "plus", "not"]), random_operand(random, depth))
    return random_form(random, depth - 1) if depth else ("name", random.choice(NAMES))


def random_properties(random: Random) -> dict[str, str]:
    """Some of the names with some text."""
    return {name: random.choice(TEXTS) for name in NAMES if random.random() < 0.7}


def written(form: Form) -> str:
    """The form as an expression; NOT binds tighter than a comparison, so what it stands before needs no parentheses."""
    match form:
        case ("and" | "or" as word, parts):
            return f" {word} ".join(in_parentheses(part) for part in parts)
        case ("not", inner):
            return f"NOT {in_parentheses(inner)}"
        case ("minus", inner):
            return f"- {in_parentheses(inner)}"
        case ("plus", inner):
            return f"+{in_parentheses(inner)}"
        case ("=" | "<>" as sign, left, right):
            return f"{in_parentheses(left)}{sign}{in_parentheses(right)}"
        case ("order", sign, left, right):
            return f"{in_parentheses(left)} {sign} {in_parentheses(right)}"
        case ("between", value, low, high, is_not):
            ends = f"{in_parentheses(low)} AND {in_parentheses(high)}"
            return f"{in_parentheses(value)} {'NOT ' if is_not else ''}Between {ends}"
        case ("in", value, strings, is_not):
            return f"{in_parentheses(value)} {'not ' if is_not else ''}IN ({', '.join(map(quoted, strings))})"
        case ("text", word, value, string, is_not):
            return f"{in_parentheses(value)} {'NOT ' if is_not else ''}{word} {quoted(string)}"
        case ("null", value, is_not):
            return f"{in_parentheses(value)} IS {'NOT ' if is_not else ''}NULL"
        case ("truth", value):
            return {True: "TRUE", False: "false", None: "NULL"}[value]
        case ("string", value):
            return quoted(value)
        case (_, text):
            return str(text)
    raise AssertionError(form)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def in_parentheses(form: Form) -> str:
    alone = form[0] in {"name", "whole", "float", "string", "truth", "not", "minus", "plus"}
    return written(form) if alone else f"({written(form)})"
