"""The OpenAPI 3.1 description, made from the table of operations and the schemas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from .needs import EVERYWHERE, OVERVIEW, SOMEWHERE
from .problems import Problem
from .route import Narrowing
from .routes import OPERATIONS, Operation

_REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"{(\w+)}")
_PROBLEM = {"application/problem+json": {"schema": {"$ref": _REF.format(name="Problem")}}}
_WHERE: Mapping[str, str] = {
    SOMEWHERE: "on some name", OVERVIEW: "on some topic, and policies Get on the cluster", EVERYWHERE: "on every name",
}  # fmt: skip
_NARROWED: Mapping[Narrowing | None, str] = {
    None: "", "id": ", on the topic of what is named", "body": ", on all that the body names",
    "rows": "; rows that it does not allow are left out", "own": ", and has to have begun it",
}  # fmt: skip


@cache
def description() -> dict[str, Any]:
    """The whole description, as values that JSON knows."""
    types = {Problem, *(each.takes for each in OPERATIONS if each.takes is not None)}
    types.update(kind for each in OPERATIONS for _, _, kind in each.answers)
    _, components = msgspec.json.schema_components(sorted(types, key=lambda kind: kind.__name__), ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for each in OPERATIONS:
        paths.setdefault(f"/api/v1{each.path}", {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Escapement",
            "version": "1",
            "description": "Send messages now or later, and look at what waits. Times are milliseconds since 1970.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "Made by: manage.py token create"}
            },
        },
    }


def _operation(each: Operation) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{each.method.lower()}{each.path}").strip("_"),
        "summary": each.summary,
        "description": _needed(each),
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in _PARAMETER.findall(each.path)
        ]
        + [
            {"name": name, "in": "query", "required": False, "description": text, "schema": {"type": "string"}}
            for name, text in each.parameters
        ],
        "responses": _responses(each),
    }
    if each.takes is not None:
        told["requestBody"] = {"required": True, "content": _content(each.takes)}
    return told


def _needed(each: Operation) -> str:
    """What a token has to allow."""
    words = []
    for need in each.needed:
        actions = " or ".join(f"`{action.partition('.')[0]}`" for action in dict.fromkeys(need.actions))
        words.append(f"{actions} {_WHERE.get(need.of) or f'on the {need.kind} `{need.of}`'}")
    return f"The token needs {' and '.join(words)}{_NARROWED[each.narrows]}."


def _responses(each: Operation) -> dict[str, Any]:
    told: dict[str, Any] = {
        str(status): {"description": text, "content": _content(kind)} for status, text, kind in each.answers
    }
    told["default"] = {"description": "What was wrong, and what to do.", "content": _PROBLEM}
    return told


def _content(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(name=kind.__name__)}}}
