"""For supervisors and load balancers: does the web process answer? Nothing else is told to strangers."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """200 with no content of interest."""
    return HttpResponse("ok\n", content_type="text/plain")
