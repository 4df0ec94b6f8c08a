"""The reference of REST as pages show it: operations in groups, found by words, with their fields, answers and errors.

All of it is read from the OpenAPI document (`console.rest.documentation`), so that both say the same; what a route
knows beyond it (what its errors advise) comes from the route.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

from console.rest.documentation import description, example_of
from console.rest.errors import DISK_FULL, REFUSALS, RULES, Rule
from console.rest.route import Route
from console.rest.routes import ROUTES

ROOT = "/api/v1"
#: objects within objects are told so deep
_DEEPEST = 4
_BOUNDS = (
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minimum", "from {}"),
    ("maximum", "to {}"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("default", "default {}"),
)
#: what the form of an operation has a field of its own for
OWN_FIELDS = frozenset({"reason", "preview"})
_Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter, or a field of a body; the name of one within another has that before it."""

    name: str
    kind: str
    is_required: bool
    about: str
    #: path, query, header; "" for a field of a body
    place: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that is no error, with its fields."""

    status: str
    about: str
    fields: tuple[Field, ...]

    @property
    def place(self) -> str:
        """Return the id of the part of the page that has it."""
        return f"answer-{self.status}"

    @property
    def titled(self) -> str:
        """Return the id of that part's title."""
        return f"{self.place}-title"


@dataclass(frozen=True, slots=True)
class Fault:
    """Errors of one code, with all their meanings and remedies."""

    code: str
    status: int
    titles: str
    remedies: str


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the interface."""

    route: Route
    summary: str
    needed: str
    about: str
    parameters: tuple[Field, ...]
    fields: tuple[Field, ...]
    answers: tuple[Answer, ...]
    faults: tuple[Fault, ...]

    @property
    def name(self) -> str:
        """Return the name by which its page is addressed, and generated clients call it."""
        return self.route.name

    @property
    def method(self) -> str:
        """Return the method of the request."""
        return self.route.method

    @property
    def path(self) -> str:
        """Return the address with its parameters in braces."""
        return f"{ROOT}{self.route.path}"

    @property
    def example(self) -> str:
        """Return a body to begin with as it is written, "" where there is none."""
        return "" if self.route.body is None else json.dumps(example_of(self.route), indent=2, ensure_ascii=False)

    def matches(self, words: Sequence[str]) -> bool:
        """Tell whether all of the words are in what is said of it."""
        said = f"{self.route.feature} {self.method} {self.path} {self.summary} {self.about} {self.name}".lower()
        return all(word in said for word in words)


@dataclass(frozen=True, slots=True)
class Group:
    """The operations of one feature."""

    name: str
    operations: tuple[Operation, ...]

    @property
    def place(self) -> str:
        """Return the id by which a page leads to it."""
        return f"group-{self.name.lower().replace(' ', '-')}"

    @property
    def titled(self) -> str:
        """Return the id of that part's title."""
        return f"{self.place}-title"


def groups(sought: str) -> list[Group]:
    """Return the operations whose texts have all of these words, in groups by name."""
    words = sought.lower().split()
    found = [each for each in operations().values() if each.matches(words)]
    found.sort(key=lambda each: (each.route.feature, each.route.path, each.method))
    return [Group(name, tuple(of_it)) for name, of_it in groupby(found, lambda each: each.route.feature)]


@cache
def operations() -> Mapping[str, Operation]:
    """Return every operation by its name."""
    return {each.name: _operation(each) for each in ROUTES}


def _operation(route: Route) -> Operation:
    told = description()["paths"][f"{ROOT}{route.path}"][route.method.lower()]
    body = told.get("requestBody")
    is_error = re.compile(r"[45]\d\d|default").fullmatch
    return Operation(
        route=route,
        summary=told["summary"],
        needed=told["description"],
        about=" ".join((route.handler.__doc__ or "").split()),
        parameters=tuple(map(_parameter, told["parameters"])),
        fields=() if body is None else _fields_of(body),
        answers=tuple(
            Answer(status, answer["description"], _fields_of(answer))
            for status, answer in told["responses"].items()
            if not is_error(status)
        ),
        faults=tuple(faults(RULES[error] for error in route.errors)),
    )


def faults(rules: Iterator[Rule] | None = None) -> list[Fault]:
    """Return the errors of these rules, all that there are if none are given, by status and code."""
    found: dict[str, list[Rule]] = {}
    for rule in rules if rules is not None else (*RULES.values(), *REFUSALS.values(), DISK_FULL):
        found.setdefault(rule.code, []).append(rule)
    rows = [
        Fault(
            code,
            same[0].status,
            " / ".join(dict.fromkeys(rule.title for rule in same)),
            " / ".join(dict.fromkeys(rule.remedy for rule in same)),
        )
        for code, same in found.items()
    ]
    return sorted(rows, key=lambda each: (each.status, each.code))


def _parameter(told: _Schema) -> Field:
    schema = told["schema"]
    about = " ".join(filter(None, (told.get("description", ""), _bounds(schema))))
    return Field(told["name"], _kind(schema), told["required"], about, told["in"])


def _fields_of(told: _Schema) -> tuple[Field, ...]:
    schema = told["content"]["application/json"]["schema"]
    fields: dict[str, Field] = {}
    for each in schema.get("anyOf", (schema,)):
        for field in _fields(each, "", ()):
            fields.setdefault(field.name, field)
    return tuple(fields.values())


def _fields(schema: _Schema, before: str, within: tuple[str, ...]) -> Iterator[Field]:
    """Yield the fields of an object, each followed by those of the objects in it."""
    whole = _resolved(schema)
    required = whole.get("required", ())
    for name, of_field in whole.get("properties", {}).items():
        about = " ".join(filter(None, (_said(of_field), _bounds(of_field))))
        yield Field(f"{before}{name}", _kind(of_field), name in required, about)
        for inner, mark in _objects(of_field):
            known = inner.get("$ref", "")
            if len(within) < _DEEPEST and known not in within:
                yield from _fields(inner, f"{before}{name}{mark}.", (*within, known))


def _objects(schema: _Schema, mark: str = "") -> Iterator[tuple[_Schema, str]]:
    """Yield the objects that a field may hold, and what stands behind its name for one of several."""
    for each in schema.get("anyOf", ()):
        yield from _objects(each, mark)
    if isinstance(schema.get("items"), dict):
        yield from _objects(schema["items"], f"{mark}[]")
    if "properties" in _resolved(schema):
        yield schema, mark


def _resolved(schema: _Schema) -> _Schema:
    if "$ref" not in schema:
        return schema
    found: _Schema = description()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


def _kind(schema: _Schema) -> str:
    """Return what a value is, in words."""
    schema = _resolved(schema)
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_kind, schema["anyOf"])))
    if "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"list of {_kind(schema['items'])}" if isinstance(schema.get("items"), dict) else "list"
    return str(kind)


def _said(schema: _Schema) -> str:
    """Return what is said of a value, or of one of the kinds that it may be of."""
    own = schema.get("description", "")
    return str(own or next(filter(None, map(_said, schema.get("anyOf", ()))), ""))


def _bounds(schema: _Schema) -> str:
    """Return the bounds of a value and what it is without being given, in words."""
    bounds: dict[str, Any] = {}
    for each in (schema, *schema.get("anyOf", ())):
        bounds |= {name: each[name] for name, _ in _BOUNDS if each.get(name) not in (None, [], {}, "")}
    said = ", ".join(text.format(json.dumps(bounds[name])) for name, text in _BOUNDS if name in bounds)
    return f"({said})" if said else ""
