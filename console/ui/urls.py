"""Addresses of the console pages."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import URLPattern, URLResolver, path, register_converter

from console.features.alerts import pages as alerts_pages
from console.features.clients import pages as clients_pages
from console.features.dashboards import pages as dashboards_pages
from console.features.dead_letters import pages as dead_letters_pages
from console.features.groups import pages as groups_pages
from console.features.messages import pages as messages_pages
from console.features.overview import pages as overview_pages
from console.features.redisson import pages as redisson_pages
from console.features.schedule import pages as schedule_pages
from console.features.timers import pages as timers_pages
from console.features.topics import pages as topics_pages
from console.features.transactions import pages as transactions_pages
from console.operations import audit_pages
from console.operations import pages as operations_pages
from console.security.sign_on import pages as sign_on_pages
from console.security.sign_on.provider import label
from console.ui import design_page, health, icon, metrics, palette, theme
from console.ui import find as ui_find
from console.ui.names import Name
from console.ui.saved_views import pages as saved_views_pages
from console.ui.snapshots import compare_page

register_converter(Name, "name")

urlpatterns: list[URLPattern | URLResolver] = [
    path("", overview_pages.overview, name="overview"),
    path("schedule/", schedule_pages.schedule, name="schedule"),
    path("schedule/<int:level>/", schedule_pages.lane, name="lane"),
    path("timers/", timers_pages.timers, name="timers"),
    path("timers/list/", timers_pages.timer_list, name="timer_list"),
    path("timers/<int:position>/", timers_pages.timer, name="timer"),
    path("transactions/", transactions_pages.transactions, name="transactions"),
    path("transactions/list/", transactions_pages.transaction_list, name="transaction_list"),
    path("transactions/<int:position>/", transactions_pages.transaction, name="transaction"),
    path("redisson/", redisson_pages.queues, name="delayed_queues"),
    path("redisson/queue/", redisson_pages.queue, name="delayed_queue"),
    path("operations/", operations_pages.operations, name="operations"),
    path("operations/draft/", operations_pages.draft, name="operation_draft"),
    path("operations/<str:operation_id>/", operations_pages.operation, name="operation"),
    path("operations/<str:operation_id>/preview/", operations_pages.look_again, name="operation_preview"),
    path("operations/<str:operation_id>/confirm/", operations_pages.confirm, name="operation_confirm"),
    path("operations/<str:operation_id>/abort/", operations_pages.abort, name="operation_abort"),
    path("operations/<str:operation_id>/continue/", operations_pages.go_on, name="operation_continue"),
    path("operations/<str:operation_id>/approve/", operations_pages.approve, name="operation_approve"),
    path("operations/<str:operation_id>/decline/", operations_pages.decline, name="operation_decline"),
    path("operations/<str:operation_id>/undo/", operations_pages.undo, name="operation_undo"),
    path("topics/", topics_pages.topics, name="topics"),
    path("topics/<name:name>/", topics_pages.topic, name="topic"),
    path("topics/<name:name>/tail/", topics_pages.tail, name="tail"),
    path("topics/<name:name>/<int:queue_id>/", topics_pages.queue, name="queue"),
    path("messages/", messages_pages.search, name="messages"),
    path("messages/<name:message_id>/", messages_pages.message, name="message"),
    path("messages/<name:message_id>/unmask/", messages_pages.unmask, name="message_unmask"),
    path("messages/<name:message_id>/body", messages_pages.body, name="message_body"),
    path("dashboards/", dashboards_pages.dashboards, name="dashboards"),
    path("dashboards/run/", dashboards_pages.run, name="dashboards_run"),
    path("dashboards/cancel/", dashboards_pages.cancel, name="dashboards_cancel"),
    path("dashboards/<str:name>/", dashboards_pages.dashboard, name="dashboard"),
    path("dashboards/<str:name>/series/<str:series>.json", dashboards_pages.series, name="dashboard_series"),
    path("dashboards/<str:name>/data.<str:form>", dashboards_pages.data, name="dashboard_data"),
    path("dead-letters/", dead_letters_pages.groups, name="dead_letters"),
    path("dead-letters/of/<name:name>/", dead_letters_pages.letters, name="dead_letters_of"),
    path("groups/", groups_pages.groups, name="groups"),
    path("groups/<name:name>/", groups_pages.group, name="group"),
    path("compare/", compare_page.compare, name="compare"),
    path("clients/", clients_pages.clients, name="clients"),
    path("clients/one/", clients_pages.client, name="client"),
    path("alerts/", alerts_pages.alerts, name="alerts"),
    path("alerts/silence/", alerts_pages.silence, name="alert_silence"),
    path("alerts/rules/new/", alerts_pages.new_rule, name="alert_rule_new"),
    path("alerts/rules/<int:rule_id>/", alerts_pages.rule, name="alert_rule"),
    path("audit/", audit_pages.audit, name="audit"),
    path("audit/data.<str:form>", audit_pages.data, name="audit_data"),
    path("design/", design_page.design, name="design"),
    path("views/", saved_views_pages.saved_views, name="saved_views"),
    path("views/keep/", saved_views_pages.keep, name="saved_view_keep"),
    path("views/<int:view_id>/", saved_views_pages.change, name="saved_view"),
    path("views/<int:view_id>/delete/", saved_views_pages.delete, name="saved_view_delete"),
    path("find/", palette.find, name="find"),
    path("find/key/", ui_find.open_key, name="find_key"),
    path("find/act/", ui_find.act, name="find_act"),
    path(
        "login/", LoginView.as_view(redirect_authenticated_user=True, extra_context={"provider": label}), name="login"
    ),
    path("login/provider/", sign_on_pages.leave, name="sign_on"),
    path("login/provider/back/", sign_on_pages.back, name="sign_on_back"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("theme/", theme.set_theme, name="set_theme"),
    path("favicon.ico", icon.favicon, name="favicon"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
]
