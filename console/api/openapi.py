"""The OpenAPI 3.1 description, made from the table of operations and the schemas."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from .operations import OPERATIONS, Operation
from .problems import Problem

_REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"{(\w+)}")
_PROBLEM = {"application/problem+json": {"schema": {"$ref": _REF.format(name="Problem")}}}


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
        "description": f"The token needs the action `{each.action}`.",
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
    if each.handler is None:
        told["x-built"] = False
    return told


def _responses(each: Operation) -> dict[str, Any]:
    told: dict[str, Any] = {
        str(status): {"description": text, "content": _content(kind)} for status, text, kind in each.answers
    }
    if each.handler is None:
        told["501"] = {"description": "Planned, not built yet.", "content": _PROBLEM}
    told["default"] = {"description": "What was wrong, and what to do.", "content": _PROBLEM}
    return told


def _content(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(name=kind.__name__)}}}
