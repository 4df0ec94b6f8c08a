"""/api/openapi.json and /api/docs: the description, and the page (Swagger UI) that shows it and tries requests.

The page is for people who are signed in to the console, the description also for programs with a token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import msgspec
from django.conf import settings
from django.template.loader import render_to_string
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from .errors import RequestError
from .openapi import description
from .problems import DISK_FULL, REFUSALS, RULES, Rule
from .responses import HEADERS, problem_answer
from .state import ApiState

#: `data:` for the small images that Swagger UI's style sheet has in itself
_PAGE_HEADERS = HEADERS | {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}


@cache
def _page() -> str:
    return render_to_string("api/page.html", {"errors": _errors()})


def _errors() -> list[dict[str, Any]]:
    """A row for each code; one that is said of several things has what to do for each."""
    found: dict[str, list[Rule]] = {}
    for rule in (*RULES.values(), *REFUSALS.values(), DISK_FULL):
        found.setdefault(rule.code, []).append(rule)
    return [
        {
            "code": code,
            "status": rules[0].status,
            "titles": _joined(rule.title for rule in rules),
            "remedies": _joined(rule.remedy for rule in rules),
        }
        for code, rules in sorted(found.items(), key=lambda each: (each[1][0].status, each[0]))
    ]


def _joined(texts: Iterable[str]) -> str:
    return " / ".join(dict.fromkeys(texts))


def addresses(state: Callable[[], ApiState]) -> list[BaseRoute]:
    """The addresses of the description and of the page."""

    async def is_signed_in(request: Request) -> bool:
        return await state().grants.signed_in(request, settings.SESSION_COOKIE_NAME)

    async def openapi(request: Request) -> Response:
        try:
            if not await is_signed_in(request):
                await state().grants.known(request)
        except RequestError as error:
            return problem_answer(error)
        return Response(msgspec.json.encode(description()), 200, HEADERS, "application/json")

    async def docs(request: Request) -> Response:
        try:
            if not await is_signed_in(request):
                return RedirectResponse(f"{settings.LOGIN_URL}?next=/api/docs", 302, HEADERS)
        except RequestError as error:
            return problem_answer(error)
        return HTMLResponse(_page(), 200, _PAGE_HEADERS)

    return [
        Route("/api/openapi.json", openapi, methods=["GET"]),
        Route("/api/docs", docs, methods=["GET"]),
        Route("/api/docs/", docs, methods=["GET"]),
    ]
