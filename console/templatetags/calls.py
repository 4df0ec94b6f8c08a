"""The calls that do the same as an operation's page: by REST, in a shell, in Python."""

from __future__ import annotations

import json
import shlex
from typing import Any
from urllib.parse import quote

from django import template

from console.operations.rows import Operation

register = template.Library()

SETTINGS = frozenset(f"{family}.{verb}" for family in ("topics", "groups") for verb in ("create", "change", "delete"))


@register.simple_tag(takes_context=True)
def same_call(context: template.Context, row: Operation) -> str:
    """The REST call that does the same, for a shell; empty for chosen ones, which REST names by their own addresses."""
    if row.kind in SETTINGS:
        return _settings_call(context, row)
    if "targets" in row.parameters or "queue" in row.parameters or not row.kind.startswith("timers."):
        return ""
    body: dict[str, Any] = {}
    if "filter" in row.parameters:
        wanted = row.parameters["filter"]
        names = {"topic": "topic", "key": "key", "from_ms": "due_from", "to_ms": "due_before"}
        body["filter"] = {names[name]: value for name, value in wanted.items() if value not in (None, "")}
        if row.parameters.get("is_all"):
            body["all"] = True
    moved = {"due_ms": "deliver_at", "shift_ms": "shift_ms"}
    body |= {moved[name]: row.parameters[name] for name in moved if row.parameters.get(name) is not None}
    body["reason"] = "..."
    action = row.kind.removeprefix("timers.").replace("_", "-")
    return _curl(context, "POST", f"timers:{action}", body)


def _settings_call(context: template.Context, row: Operation) -> str:
    """A topic or group made, changed or deleted."""
    family, _dot, verb = row.kind.partition(".")
    name = quote(row.parameters["name"], safe="")
    if verb == "delete":
        return _curl(context, "DELETE", f"{family}/{name}?reason=...", None)
    body = {part: row.parameters[part] for part in ("settings", "expected") if part in row.parameters}
    if verb == "create":
        return _curl(context, "POST", family, {"name": row.parameters["name"], **body, "reason": "..."})
    return _curl(context, "PATCH", f"{family}/{name}/settings", {**body, "reason": "..."})


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
    given = json.dumps(row.parameters, ensure_ascii=False)
    return f"manage.py operate {row.kind} {shlex.quote(given)} \\\n  --reason ... --run"


@register.filter
def python_call(row: Operation) -> str:
    """The same in Python, where Django is set up; `user` is who does it."""
    return (
        "from console.operations import desk\nfrom console.operations.actor import Actor\n\n"
        f"desk.start({row.kind!r}, {row.parameters!r},\n           Actor.of(user), reason=...)"
    )
