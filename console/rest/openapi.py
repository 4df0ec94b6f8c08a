"""The OpenAPI 3.1 description, made from what routes declare and the Structs of their requests and answers."""

from __future__ import annotations

import re
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from .problems import RULES, Problem
from .query import Parameter
from .route import Route
from .routes import ROUTES
from .schemas import DeliverAt, Moment, Reason

_REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"{(\w+)}")
_EXAMPLES: dict[Any, Any] = {
    Reason: "because",
    Moment: "2099-01-31T08:00:00Z",
    DeliverAt: "2099-01-31T08:00:00Z",
}
_PROBLEM = {"application/problem+json": {"schema": {"$ref": _REF.format(name="Problem")}}}


@cache
def description() -> dict[str, Any]:
    """The whole description, as values that JSON knows."""
    types = {Problem, *(each.body for each in ROUTES if each.body is not None)}
    types.update(kind for each in ROUTES for _, _, kind in each.answers)
    _, components = msgspec.json.schema_components(sorted(types, key=lambda kind: kind.__name__), ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for each in ROUTES:
        paths.setdefault(f"/api/v1{each.path}", {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Escapement",
            "version": "1",
            "description": "Send messages now or later, and look at what waits. Times are milliseconds since 1970.",
        },
        "tags": [{"name": name} for name in sorted({each.feature for each in ROUTES})],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "Made by: manage.py token create"}
            },
        },
    }


def _operation(each: Route) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{each.method.lower()}{each.path}").strip("_"),
        "summary": each.summary,
        "description": _needed(each),
        "tags": [each.feature],
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in _PARAMETER.findall(each.path)
            ),
            *map(_in_query, each.parameters),
        ],
        "responses": _responses(each),
    }
    if each.body is not None:
        content = _content(each.body)
        content["application/json"]["example"] = example_of(each)
        told["requestBody"] = {"required": not each.is_body_optional, "content": content}
    return told


def example_of(each: Route) -> dict[str, Any]:
    """A body to begin with: the one that the route gives, or what its Struct cannot do without."""
    if each.example is not None:
        return dict(each.example)
    return _least(each.body) if each.body is not None else {}


def _least(kind: Any) -> Any:
    """A value of the type that has what is required, and nothing more."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = get_type_hints(kind, include_extras=True)
        return {each.encode_name: _least(hints[each.name]) for each in msgspec.structs.fields(kind) if each.required}
    if get_origin(kind) is Annotated:
        return _EXAMPLES.get(kind) or _least(kind.__origin__)
    if get_origin(kind) is Literal or isinstance(kind, UnionType):
        first = get_args(kind)[0]
        return first if get_origin(kind) is Literal else _least(first)
    if get_origin(kind) is list:
        return [_least(get_args(kind)[0])]
    return 1 if kind in (int, float) else "..."


def _in_query(each: Parameter) -> dict[str, Any]:
    return {
        "name": each.name, "in": "query", "required": False, "description": each.description, "schema": each.schema,
    }  # fmt: skip


def _needed(each: Route) -> str:
    """What a token has to allow, in a sentence."""
    needs = []
    for place in each.on:
        actions = (place.action,) if place.action else each.actions
        words = " or ".join(f"`{action.partition('.')[0]}`" for action in dict.fromkeys(actions))
        needs.append(f"{words} {place.words}")
    return f"The token needs {' and '.join(needs)}."


def _responses(each: Route) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for status, text, kind in each.answers:
        told[str(status)] = {"description": text, "content": _content(kind)}
    refused: dict[str, list[str]] = {}
    for error in each.errors:
        rule = RULES[error]
        refused.setdefault(str(rule.status), []).append(f"`{rule.code}`: {rule.title}.")
    for code, texts in sorted(refused.items()):
        told[code] = {"description": " ".join(texts), "content": _PROBLEM}
    told["default"] = {"description": "What was wrong, and what to do.", "content": _PROBLEM}
    return told


def _content(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(name=kind.__name__)}}}
