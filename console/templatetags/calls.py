"""The calls that do the same as an operation's page: by REST, in a shell, in Python."""

from __future__ import annotations

import json
import shlex
from typing import Any

from django import template

from console.operations.rows import Operation

register = template.Library()


@register.simple_tag(takes_context=True)
def same_call(context: template.Context, row: Operation) -> str:
    """The REST call that does the same, for a shell; empty for chosen ones, which REST names by their own addresses."""
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
    origin = context["request"].build_absolute_uri("/").rstrip("/") if "request" in context else ""
    return (
        f"curl -X POST {shlex.quote(f'{origin}/api/v1/timers:{action}')} \\\n"
        f'  -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\\n'
        f"  -d {shlex.quote(json.dumps(body, ensure_ascii=False))}"
    )


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
