"""The icon for pages that name none: the description of REST, and Django's own administration."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.templatetags.static import static
from django.views.decorators.http import require_safe


@require_safe
def favicon(request: HttpRequest) -> HttpResponse:
    """Where browsers look for it."""
    return redirect(static("icon.svg"))
