"""The description of the REST interface: /api/openapi.json, for people who are signed in and programs with a token.

OpenAPI 3.1 is made from what routes declare and the Structs of their requests and answers. The pages of the console
that show it are made from it (`console.rest.reference`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from django.conf import settings
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as Address

from console.rest.errors import RULES, Problem, RequestError
from console.rest.query import Parameter
from console.rest.responses import HEADERS, problem_answer
from console.rest.route import Route
from console.rest.routes import ROUTES
from console.rest.schemas import DeliverAt, Moment, Reason
from console.rest.state import ApiState

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
    """Return the whole description, as values that JSON knows."""
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
            "description": "Send messages now or later, and manage pending ones. Times are milliseconds since 1970.",
        },
        "servers": [{"url": "/", "description": "This console"}],
        "tags": [{"name": name} for name in sorted({each.feature for each in ROUTES})],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": _for_generators(components),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "Created by: manage.py token create"}
            },
        },
    }


def _for_generators(told: Any) -> Any:
    """Return a schema that says `items` of a row of fixed length in the old way, too: few generators know the new."""
    if isinstance(told, list):
        return [_for_generators(each) for each in told]
    if not isinstance(told, dict):
        return told
    schema = {name: _for_generators(each) for name, each in told.items()}
    if schema.get("items") is False:
        kinds = schema.pop("prefixItems")
        unlike = [kind for nth, kind in enumerate(kinds) if kind not in kinds[:nth]]
        schema["items"] = unlike[0] if len(unlike) == 1 else {"anyOf": unlike}
    return schema


def _operation(each: Route) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "description": _needed(each),
        "tags": [each.feature],
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in _PARAMETER.findall(each.path)
            ),
            *map(_in_query, each.parameters),
            *([_KEY] if each.takes_key else []),
        ],
        "responses": _responses(each),
    }
    if each.body is not None:
        content = _content([each.body])
        content["application/json"]["example"] = example_of(each)
        told["requestBody"] = {"required": not each.is_body_optional, "content": content}
    return told


def example_of(each: Route) -> dict[str, Any]:
    """Return a body to begin with: the example of the route, or one with the required fields alone."""
    if each.example is not None:
        return dict(each.example)
    return _least(each.body) if each.body is not None else {}


def _least(kind: Any) -> Any:
    """Return a value of the type with its required fields alone."""
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


_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Repeated with the same key within a day, the request gets its first answer again "
    "(`idempotency-replayed: true`), and nothing is done twice. 422 with another body, 409 while it is under way.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}


def _in_query(each: Parameter) -> dict[str, Any]:
    return {
        "name": each.name,
        "in": "query",
        "required": False,
        "description": each.description,
        "schema": each.schema,
    }


def _needed(each: Route) -> str:
    """Return a sentence that says what a token has to allow."""
    needs = []
    for place in each.on:
        actions = (place.action,) if place.action else each.actions
        words = " or ".join(f"`{action.partition('.')[0]}`" for action in dict.fromkeys(actions))
        needs.append(f"{words} {place.words}")
    return f"The token needs {' and '.join(needs)}."


def _responses(each: Route) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for status in dict.fromkeys(status for status, _, _ in each.answers):
        meant = [(text, kind) for found, text, kind in each.answers if found == status]
        told[str(status)] = {
            "description": " ".join(text for text, _ in meant),
            "content": _content([kind for _, kind in meant]),
        }
    refused: dict[str, list[str]] = {}
    for error in each.errors:
        rule = RULES[error]
        refused.setdefault(str(rule.status), []).append(f"`{rule.code}`: {rule.title}.")
    for code, texts in sorted(refused.items()):
        told[code] = {"description": " ".join(texts), "content": _PROBLEM}
    told["default"] = {"description": "What was wrong, and what to do.", "content": _PROBLEM}
    return told


def _content(kinds: Sequence[type[msgspec.Struct]]) -> dict[str, Any]:
    """Return what is answered: one of these."""
    schemas = [{"$ref": _REF.format(name=kind.__name__)} for kind in kinds]
    return {"application/json": {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}}


def addresses(state: Callable[[], ApiState]) -> list[BaseRoute]:
    """Return the address of the description."""

    async def is_signed_in(request: Request) -> bool:
        return await state().grants.signed_in(request, settings.SESSION_COOKIE_NAME)

    async def openapi(request: Request) -> Response:
        try:
            if not await is_signed_in(request):
                await state().grants.known(request)
        except RequestError as error:
            return problem_answer(error)
        return Response(msgspec.json.encode(description()), 200, HEADERS, "application/json")

    return [Address("/api/openapi.json", openapi, methods=["GET"])]
