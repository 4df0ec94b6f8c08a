"""The first page: what is wrong, what happens next, how much flows."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console import queries


@require_safe
@login_required
def overview(request: HttpRequest) -> HttpResponse:
    """Findings, figures, flow, processes, the next minute."""
    return render(request, "overview/page.html", {"data": queries.overview(), "here": "overview", "live": "overview"})
