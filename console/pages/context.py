"""What every page knows: the environment's name, the chosen theme, which findings lead where."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest

from console.queries.shapes.overview import FindingCode

THEME_COOKIE = "theme"
_LANE_CODES = (FindingCode.LANE_LATE, FindingCode.PROGRESS_UNSAVED, FindingCode.RELEASED_EARLY)
_GROUP_CODES = (FindingCode.GROUP_WITHOUT_CONSUMER, FindingCode.DEAD_LETTERS)


def page(request: HttpRequest) -> dict[str, object]:
    """Context of all templates."""
    theme = request.COOKIES.get(THEME_COOKIE, "")
    return {
        "environment": settings.ESCAPEMENT_ENV,
        "theme": theme if theme in ("light", "dark") else "",
        "lane_codes": _LANE_CODES,
        "group_codes": _GROUP_CODES,
    }
