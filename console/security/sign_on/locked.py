"""The answer to too many wrong passwords, and the address that a try is counted for."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def locked(request: HttpRequest, original_response: HttpResponse | None, credentials: Any) -> HttpResponse:
    """Return the page for a locked login; Retry-After says when to try again, as each try in between begins anew."""
    page = render(request, "registration/locked.html", status=HTTPStatus.TOO_MANY_REQUESTS)
    page["Retry-After"] = str(int(settings.AXES_COOLOFF_TIME.total_seconds()))
    return page


def address_of(request: HttpRequest) -> str:
    """Return the address of the connection, as uvicorn knows it from trusted proxies; headers are not read."""
    return str(request.META.get("REMOTE_ADDR", ""))
