"""What every page knows: the environment's name, the chosen theme, what stands in the rail."""

from __future__ import annotations

from datetime import UTC, datetime

from django.conf import settings
from django.http import HttpRequest

from console.site.clock import real_now_ms, simulated
from console.ui.navigation import sections_for

THEME_COOKIE = "theme"
THEMES = ("light", "dark")


def _simulated() -> dict[str, object]:
    """What the banner says, and what a page's own clock goes on from; nothing where the broker's clock is real."""
    line = simulated()
    if line is None:
        return {}
    answered_ms = real_now_ms()
    return {
        "simulated": line,
        "answered_ms": answered_ms,
        "simulated_now": datetime.fromtimestamp(line.at(answered_ms) / 1000, UTC),
    }


def page(request: HttpRequest) -> dict[str, object]:
    """Context of all templates."""
    theme = request.COOKIES.get(THEME_COOKIE, "")
    return {
        "environment": settings.ESCAPEMENT_ENV,
        "theme": theme if theme in THEMES else "",
        "sections": list(sections_for(request.user)) if hasattr(request, "user") else [],
        **_simulated(),
    }
