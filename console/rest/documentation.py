"""/api/openapi.json and /api/docs: the description, and a page to try it.

The page is for people who are signed in to the console, the description also for programs with a token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape

import msgspec
from django.conf import settings
from django.templatetags.static import static
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from .errors import RequestError
from .openapi import description
from .problems import DISK_FULL, REFUSALS, RULES, Rule
from .responses import HEADERS, problem_answer
from .state import Room

_PAGE_HEADERS = HEADERS | {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>REST - Escapement</title>
<link rel="stylesheet" href="{style}">
<script type="module" src="{script}"></script>
</head>
<body>
<header>
<a href="/">Escapement</a>
<h1>REST</h1>
<label for="token">Bearer token</label>
<input id="token" type="password" autocomplete="off" spellcheck="false" placeholder="esc_...">
<a href="/api/openapi.json">openapi.json</a>
</header>
<main id="operations" aria-busy="true"><p>Reading the description ...</p></main>
<section aria-labelledby="errors">
<h2 id="errors">Errors</h2>
<p>An answer of application/problem+json has one of these codes, what was wrong, and what to do;
its type leads here.</p>
<table>
<thead>
<tr><th scope="col">Code</th><th scope="col">Status</th><th scope="col">Meaning</th><th scope="col">What to do</th></tr>
</thead>
<tbody>
{errors}
</tbody>
</table>
</section>
<noscript><p>This page needs JavaScript; the description is at /api/openapi.json.</p></noscript>
</body>
</html>
"""


def _errors() -> str:
    """A row for each code, with the code as its anchor; one that is said of several things has what to do for each."""
    found: dict[str, list[Rule]] = {}
    for rule in (*RULES.values(), *REFUSALS.values(), DISK_FULL):
        found.setdefault(rule.code, []).append(rule)
    rows = []
    for code, rules in sorted(found.items(), key=lambda each: (each[1][0].status, each[0])):
        told = [code, str(rules[0].status), *(_joined(rules, part) for part in ("title", "remedy"))]
        cells = "".join(f"<td>{escape(text)}</td>" for text in told[1:])
        rows.append(f'<tr id="{escape(code)}"><th scope="row">{escape(code)}</th>{cells}</tr>')
    return "\n".join(rows)


def _joined(rules: Iterable[Rule], part: str) -> str:
    return " / ".join(dict.fromkeys(getattr(rule, part) for rule in rules))


def routes(room: Callable[[], Room]) -> list[BaseRoute]:
    """The routes of the two."""

    async def is_signed_in(request: Request) -> bool:
        return await room().grants.signed_in(request, settings.SESSION_COOKIE_NAME)

    async def openapi(request: Request) -> Response:
        try:
            if not await is_signed_in(request):
                await room().grants.known(request)
        except RequestError as error:
            return problem_answer(error)
        return Response(msgspec.json.encode(description()), 200, HEADERS, "application/json")

    async def docs(request: Request) -> Response:
        try:
            if not await is_signed_in(request):
                return RedirectResponse(f"{settings.LOGIN_URL}?next=/api/docs", 302, HEADERS)
        except RequestError as error:
            return problem_answer(error)
        page = _PAGE.format(style=static("api/docs.css"), script=static("api/docs.js"), errors=_errors())
        return HTMLResponse(page, 200, _PAGE_HEADERS)

    return [
        Route("/api/openapi.json", openapi, methods=["GET"]),
        Route("/api/docs", docs, methods=["GET"]),
        Route("/api/docs/", docs, methods=["GET"]),
    ]
