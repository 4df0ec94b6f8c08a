"""A call of REST as a line for a shell."""

from __future__ import annotations

import json
import shlex
from typing import Any


def curl(origin: str, method: str, path: str, body: Any = None, headers: tuple[str, ...] = ()) -> str:
    """Return the command; `path` is what stands behind /api/v1/, the token is that of the environment."""
    call = f'curl -X {method} {shlex.quote(f"{origin}/api/v1/{path}")} \\\n  -H "Authorization: Bearer $TOKEN"'
    for header in headers:
        call += f" -H {shlex.quote(header)}"
    if body is None:
        return call
    said = shlex.quote(json.dumps(body, ensure_ascii=False))
    return f'{call} -H "Content-Type: application/json" \\\n  -d {said}'
