"""Addresses of the console pages."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import URLPattern, URLResolver, path

from console.pages import groups, health, messages, overview, schedule, topics

urlpatterns: list[URLPattern | URLResolver] = [
    path("", overview.overview, name="overview"),
    path("schedule/", schedule.schedule, name="schedule"),
    path("schedule/<int:level>/", schedule.lane, name="lane"),
    path("topics/", topics.topics, name="topics"),
    path("topics/<str:name>/", topics.topic, name="topic"),
    path("topics/<str:name>/<int:queue_id>/", topics.queue, name="queue"),
    path("messages/", messages.search, name="messages"),
    path("messages/<str:message_id>/", messages.message, name="message"),
    path("messages/<str:message_id>/body", messages.body, name="message_body"),
    path("groups/", groups.groups, name="groups"),
    path("groups/<str:name>/", groups.group, name="group"),
    path("login/", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("healthz", health.healthz, name="healthz"),
]
