"""What every page knows: the environment's name, the chosen theme, what stands in the rail."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest

from console.pages.places import sections_for

THEME_COOKIE = "theme"


def page(request: HttpRequest) -> dict[str, object]:
    """Context of all templates."""
    theme = request.COOKIES.get(THEME_COOKIE, "")
    return {
        "environment": settings.ESCAPEMENT_ENV,
        "theme": theme if theme in ("light", "dark") else "",
        "sections": list(sections_for(request.user)) if hasattr(request, "user") else [],
    }
