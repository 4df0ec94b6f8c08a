"""Addresses with names in them, and addresses that take a form only.

Whatever a client called a topic or a group, its page has an address that leads back to it.

Who comes to the address of a form otherwise is led to the page that has the form. The answer to a refused form stands
at such an address: to load it again, or to change the language there, is to ask for it without the form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.urls.converters import StringConverter

#: The mark itself, what would end a part of an address, or be taken for a step in it. No name of RocketMQ holds any.
_HIDDEN = {"~": "~7E", "/": "~2F", ".": "~2E"}


class Name(StringConverter):
    """``<name:...>``: one part of an address. ``~`` alone is the empty name."""

    def to_python(self, value: str) -> str:
        """Return the name that a part of an address stands for."""
        if value == "~":
            return ""
        for character, hidden in reversed(_HIDDEN.items()):
            value = value.replace(hidden, character)
        return value

    def to_url(self, value: str) -> str:
        """Return the part of an address that stands for a name."""
        value = str(value)
        for character, hidden in _HIDDEN.items():
            if character != "." or value in (".", ".."):
                value = value.replace(character, hidden)
        return value or "~"


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
