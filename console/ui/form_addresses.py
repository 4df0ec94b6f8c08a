"""Addresses that take a form only: who comes there otherwise is led to the page that has the form.

The answer to a refused form stands at such an address: to load it again, or to change the language there, is to ask
for it without the form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

View = Callable[..., HttpResponseBase]


def form_of(page: str, *names: str) -> Callable[[View], View]:
    """Take POST; anybody who only looks goes to `page`, which takes these names of the address and its query."""

    def decorate(view: View) -> View:
        @wraps(view)
        def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if request.method == "POST":
                return view(request, *args, **kwargs)
            if request.method not in ("GET", "HEAD"):
                return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
            address = reverse(page, kwargs={name: kwargs[name] for name in names})
            query = request.GET.urlencode()
            return redirect(f"{address}?{query}" if query else address)

        return answer

    return decorate
