"""Every address that there is, read from what answers it: Django's resolver, the live pages, the routes of REST."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.contrib import admin
from django.urls import URLPattern, URLResolver, get_resolver
from starlette.routing import Route as StarletteRoute

from console.rest.app import create_application
from console.ui.live import live_pages


def _leaves(patterns: Iterable[Any], before: str = "", space: str = "") -> Iterator[tuple[str, str]]:
    for each in patterns:
        address = before + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from _leaves(each.url_patterns, address, f"{each.namespace}:" if each.namespace else space)
        else:
            assert isinstance(each, URLPattern), each
            yield f"{space}{each.name or address}", address


def pages() -> dict[str, str]:
    """Addresses of the console, as Django has them, by name; /admin/ has its own."""
    return {name: f"/{path}" for name, path in _leaves(get_resolver().url_patterns) if not name.startswith("admin:")}


def administration() -> dict[str, str]:
    """Addresses below /admin/, by name or pattern."""
    return {name: f"/{path}" for name, path in _leaves(get_resolver().url_patterns) if name.startswith("admin:")}


def tables() -> list[str]:
    """The tables of /admin/, as its addresses name them."""
    return [f"{model._meta.app_label}/{model._meta.model_name}" for model in admin.site._registry]


def sockets() -> list[str]:
    """The names that addresses of websockets begin with."""
    return list(live_pages())


def api() -> dict[str, frozenset[str]]:
    """Addresses below /api/ and the methods that are answered, read from the application."""
    found: dict[str, frozenset[str]] = {}
    for each in create_application("127.0.0.1:1").routes:
        assert isinstance(each, StarletteRoute), each
        methods = each.methods or getattr(each.endpoint, "_by_method", {})
        found[each.path] = frozenset(methods) - {"HEAD"}
    return found
