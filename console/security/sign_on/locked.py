"""What somebody is told who has tried too many passwords, and where somebody is taken to come from."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def locked(request: HttpRequest, original_response: HttpResponse | None, credentials: Any) -> HttpResponse:
    """A page, and after how many seconds it is worth trying again: each try in between begins the time anew."""
    page = render(request, "registration/locked.html", status=HTTPStatus.TOO_MANY_REQUESTS)
    page["Retry-After"] = str(int(settings.AXES_COOLOFF_TIME.total_seconds()))
    return page


def address_of(request: HttpRequest) -> str:
    """The address of the connection, or what a proxy of ESCAPEMENT_TRUSTED_PROXIES says of it; never a header."""
    return str(request.META.get("REMOTE_ADDR", ""))
