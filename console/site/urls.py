"""Every HTTP address that Django answers; REST and websockets have rooms of their own (console/site/asgi.py)."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("i18n/", include("django.conf.urls.i18n")),
    path("", include("console.ui.urls")),
]
