"""The calls that do the same as an operation's page: by REST, in a shell, in Python."""

from __future__ import annotations

import json
import shlex
from typing import Any

from django import template

from console.operations.masked import masked_parameters
from console.operations.models import Operation
from console.operations.registry import KINDS

register = template.Library()


@register.simple_tag(takes_context=True)
def same_call(context: template.Context, row: Operation) -> str:
    """The REST call that does the same, for a shell; empty where there is none."""
    kind = KINDS.get(row.kind)
    return "" if kind is None else _curl(context, *kind.rest_call(masked_parameters(row.kind, row.parameters)))


def _curl(context: template.Context, method: str, path: str, body: dict[str, Any] | None) -> str:
    origin = context["request"].build_absolute_uri("/").rstrip("/") if "request" in context else ""
    call = f'curl -X {method} {shlex.quote(f"{origin}/api/v1/{path}")} \\\n  -H "Authorization: Bearer $TOKEN"'
    if body is None:
        return call
    said = shlex.quote(json.dumps(body, ensure_ascii=False))
    return f'{call} -H "Content-Type: application/json" \\\n  -d {said}'


@register.filter
def shell_call(row: Operation) -> str:
    """The same in a shell of the machine that runs the console."""
    given = json.dumps(masked_parameters(row.kind, row.parameters), ensure_ascii=False)
    return f"manage.py operate {row.kind} {shlex.quote(given)} \\\n  --reason ... --run"


@register.filter
def python_call(row: Operation) -> str:
    """The same in Python, where Django is set up; `user` is who does it."""
    given = masked_parameters(row.kind, row.parameters)
    return (
        "from console.operations import workflow\nfrom console.operations.actor import Actor\n\n"
        f"workflow.start({row.kind!r}, {given!r},\n               Actor.of(user), reason=...)"
    )
