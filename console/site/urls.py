"""Every HTTP address that Django answers; REST and websockets are applications of their own (console/site/asgi.py)."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from django.views.i18n import set_language

from console.security.gate import EVERYBODY, page
from console.security.sign_in import to_sign_in

urlpatterns = [
    # one door for everybody: it asks for a second factor, too
    page("admin/login/", to_sign_in, "admin_sign_in", EVERYBODY),
    path("admin/", admin.site.urls),
    page("i18n/setlang/", set_language, "set_language", EVERYBODY),
    path("", include("console.urls")),
]
