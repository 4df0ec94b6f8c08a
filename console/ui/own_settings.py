"""The settings of whoever is signed in, on one page: how the console looks to them, and how they sign in."""

from __future__ import annotations

from functools import cache
from typing import Any
from zoneinfo import available_timezones

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from console.security import owed, second_factor
from console.ui.preferences import DENSITIES, SYSTEM_THEME, THEMES, ZONE_COOKIE, zone_named

_THEMES = ((SYSTEM_THEME, _("As the system")), (THEMES[0], _("Light")), (THEMES[1], _("Dark")))
_DENSITIES = ((DENSITIES[0], _("Compact rows")), (DENSITIES[1], _("Comfortable rows")))
#: of the zones those that are called after a place
_AREAS = ("Africa/", "America/", "Antarctica/", "Asia/", "Atlantic/", "Australia/", "Europe/", "Indian/", "Pacific/")


@cache
def _zones() -> tuple[str, ...]:
    return tuple(sorted(name for name in available_timezones() if name.startswith(_AREAS)))


@require_safe
def own_settings(request: HttpRequest) -> HttpResponse:
    """Show the settings of somebody's own; who still owes a password or a second factor is led there first."""
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    user: Any = request.user
    if owes := owed.of(request.session, user):
        return redirect(owes)
    zone = zone_named(request.COOKIES.get(ZONE_COOKIE))
    shown = {
        "here": "own_settings",
        "languages": settings.LANGUAGES,
        "themes": _THEMES,
        "densities": _DENSITIES,
        "zones": _zones() if not zone or zone in _zones() else (zone, *_zones()),
        "has_password": user.has_usable_password(),
        "has_second_factor": second_factor.is_on(user),
    }
    return render(request, "registration/own_settings.html", shown)
