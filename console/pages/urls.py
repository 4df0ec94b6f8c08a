"""Addresses of the console pages."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import URLPattern, URLResolver, path

from console.pages import (
    dashboards,
    dead_letters,
    delayed_queues,
    groups,
    health,
    messages,
    operations,
    overview,
    schedule,
    timers,
    topics,
    transactions,
)

urlpatterns: list[URLPattern | URLResolver] = [
    path("", overview.overview, name="overview"),
    path("schedule/", schedule.schedule, name="schedule"),
    path("schedule/<int:level>/", schedule.lane, name="lane"),
    path("timers/", timers.timers, name="timers"),
    path("timers/list/", timers.timer_list, name="timer_list"),
    path("timers/<int:position>/", timers.timer, name="timer"),
    path("transactions/", transactions.transactions, name="transactions"),
    path("transactions/draft/", transactions.draft, name="transaction_draft"),
    path("transactions/list/", transactions.transaction_list, name="transaction_list"),
    path("transactions/<int:position>/", transactions.transaction, name="transaction"),
    path("redisson/", delayed_queues.queues, name="delayed_queues"),
    path("redisson/draft/", delayed_queues.draft, name="delayed_draft"),
    path("redisson/queue/", delayed_queues.queue, name="delayed_queue"),
    path("operations/", operations.operations, name="operations"),
    path("operations/draft/", operations.draft, name="operation_draft"),
    path("operations/<str:operation_id>/", operations.operation, name="operation"),
    path("operations/<str:operation_id>/preview/", operations.look_again, name="operation_preview"),
    path("operations/<str:operation_id>/confirm/", operations.confirm, name="operation_confirm"),
    path("operations/<str:operation_id>/abort/", operations.abort, name="operation_abort"),
    path("operations/<str:operation_id>/continue/", operations.go_on, name="operation_continue"),
    path("topics/", topics.topics, name="topics"),
    path("topics/<str:name>/", topics.topic, name="topic"),
    path("topics/<str:name>/<int:queue_id>/", topics.queue, name="queue"),
    path("messages/", messages.search, name="messages"),
    path("messages/<str:message_id>/", messages.message, name="message"),
    path("messages/<str:message_id>/body", messages.body, name="message_body"),
    path("dashboards/", dashboards.dashboards, name="dashboards"),
    path("dashboards/run/", dashboards.run, name="dashboards_run"),
    path("dashboards/cancel/", dashboards.cancel, name="dashboards_cancel"),
    path("dashboards/<str:name>/", dashboards.dashboard, name="dashboard"),
    path("dashboards/<str:name>/data.<str:form>", dashboards.data, name="dashboard_data"),
    path("dead-letters/", dead_letters.groups, name="dead_letters"),
    path("dead-letters/draft/", dead_letters.draft, name="dead_letter_draft"),
    path("dead-letters/of/<str:name>/", dead_letters.letters, name="dead_letters_of"),
    path("groups/", groups.groups, name="groups"),
    path("groups/<str:name>/", groups.group, name="group"),
    path("login/", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("healthz", health.healthz, name="healthz"),
]
