"""Light or dark for who has no script: the same cookie that the script sets."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme

from console.ui.context import THEME_COOKIE, THEMES
from console.ui.form_addresses import form_of

_YEAR_S = 365 * 24 * 3_600


@form_of("overview")
def set_theme(request: HttpRequest) -> HttpResponse:
    """Back to the page on which it was asked for."""
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, {request.get_host()}, request.is_secure()):
        back = "/"
    answer = redirect(back)
    answer.status_code = 303
    if request.POST.get("theme") in THEMES:
        answer.set_cookie(THEME_COOKIE, request.POST["theme"], max_age=_YEAR_S, samesite="Lax")
    return answer
