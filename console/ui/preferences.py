"""How somebody wants to see the console: the theme, the clock's zone, how close rows stand.

Each is kept in a cookie of its own, as the language is: it is the browser's, there before anybody signs in, and the
server draws the page in it, so that nothing moves once it is there.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme

from console.ui.addresses import form_of

THEME_COOKIE, ZONE_COOKIE, DENSITY_COOKIE = "theme", "zone", "density"
THEMES = ("light", "dark")
#: stands for no choice: as the system has it
SYSTEM_THEME = "system"
#: rows close to each other, which is so without a choice, and with room around them
DENSITIES = ("compact", "comfortable")
_YEAR_S = 365 * 24 * 3_600


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones() | {settings.TIME_ZONE})


def zone_named(name: str | None) -> str:
    """Return the name of a zone that there is; "" for any other text, and for the one that everybody has."""
    return name if name and name in _zones() and name != settings.TIME_ZONE else ""


def zone_of(name: str) -> tzinfo:
    """Return a zone by what `zone_named` said."""
    return ZoneInfo(name or settings.TIME_ZONE)


class ReadersZone:
    """Middleware: what is drawn for a request has its moments in the reader's zone."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer in the zone that the cookie names; the next request of this thread is somebody else's."""
        with timezone.override(zone_of(zone_named(request.COOKIES.get(ZONE_COOKIE)))):
            return self._get_response(request)


def chosen_by(request: HttpRequest) -> dict[str, str]:
    """Return what the reader wants, by the name that templates have for it; "" where nothing was chosen."""
    theme, density = request.COOKIES.get(THEME_COOKIE, ""), request.COOKIES.get(DENSITY_COOKIE, "")
    return {
        "theme": theme if theme in THEMES else "",
        "zone": zone_named(request.COOKIES.get(ZONE_COOKIE)),
        "density": density if density in DENSITIES[1:] else "",
    }


@form_of("overview")
def set_theme(request: HttpRequest) -> HttpResponse:
    """Redirect back to the page on which it was asked for."""
    return _kept(request, THEME_COOKIE, request.POST.get("theme") in (*THEMES, SYSTEM_THEME))


@form_of("overview")
def set_density(request: HttpRequest) -> HttpResponse:
    """Redirect back to the page on which it was asked for."""
    return _kept(request, DENSITY_COOKIE, request.POST.get("density") in DENSITIES)


@form_of("overview")
def set_zone(request: HttpRequest) -> HttpResponse:
    """Redirect back to the page on which it was asked for; a zone that there is not changes nothing."""
    return _kept(request, ZONE_COOKIE, request.POST.get("zone", "").strip() in _zones())


def _kept(request: HttpRequest, name: str, is_known: bool) -> HttpResponse:
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, {request.get_host()}, request.is_secure()):
        back = "/"
    answer = redirect(back)
    answer.status_code = 303
    if is_known:
        answer.set_cookie(name, request.POST[name].strip(), max_age=_YEAR_S, samesite="Lax")
    return answer
