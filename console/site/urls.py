"""Every HTTP address that Django answers; REST and websockets are applications of their own (console/site/asgi.py)."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from django.views.i18n import set_language

from console.security.gate import EVERYBODY, page

urlpatterns = [
    page("i18n/setlang/", set_language, "set_language", EVERYBODY),
    path("", include("console.urls")),
    # behind the console's own: that has one door for everybody, which asks for a second factor, too
    path("admin/", admin.site.urls),
]
