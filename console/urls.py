"""Addresses of the pages, and who gets them."""

from __future__ import annotations

from collections.abc import Mapping

from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, register_converter

from console import comparison, components, half_page, health, palette, under_key, waiting
from console.features import clients
from console.features.access import pages as access_pages
from console.features.alerts import pages as alerts_pages
from console.features.archive import pages as archive_pages
from console.features.brokers import pages as brokers_pages
from console.features.dashboards import pages as dashboards_pages
from console.features.dead_letters import pages as dead_letters_pages
from console.features.due import pages as due_pages
from console.features.groups import pages as groups_pages
from console.features.messages import descriptor_pages, send_pages
from console.features.messages import pages as messages_pages
from console.features.overview import finding_pages
from console.features.overview import pages as overview_pages
from console.features.people import pages as people_pages
from console.features.redisson import pages as redisson_pages
from console.features.schedule import pages as schedule_pages
from console.features.timers import pages as timers_pages
from console.features.topics import pages as topics_pages
from console.features.transactions import pages as transactions_pages
from console.operations import audit_pages
from console.operations import pages as operations_pages
from console.operations.actor import CHANGE_ACCESS, CHANGE_USER, SEND_MESSAGES
from console.operations.reading import live_operation
from console.rest import reference_pages
from console.security import account, presence, sign_in, sign_on
from console.security.gate import EVERYBODY, STAFF, Access, page
from console.security.masking import UNMASK
from console.site.parsing import whole_number
from console.ui import frame, own_settings, preferences, saved_view_pages
from console.ui.addresses import Name
from console.ui.live import LiveKind

register_converter(Name, "name")

DASHBOARDS = Access((dashboards_pages.SEE,))
RUNNING = Access((dashboards_pages.SEE, dashboards_pages.RUN))
ALERTS = Access((alerts_pages.VIEW,))
SILENCING = Access((alerts_pages.VIEW, alerts_pages.SILENCE))
AUDIT = Access((audit_pages.VIEW,))
PEOPLE = Access((CHANGE_USER,), needs_all_topics=True)
TOKENS = Access(("console.view_apitoken",), needs_all_topics=True)
BROKER_USERS = Access((CHANGE_ACCESS,), needs_all_topics=True)
UNMASKING = Access(to_send=(UNMASK,))
SENDING = Access((SEND_MESSAGES,))

#: what each page lets one do, its handler asks for
urlpatterns: list[URLPattern] = [
    page("", overview_pages.overview, "overview", is_total=True),
    page("finding/", finding_pages.finding, "finding", is_total=True),
    page("due/", due_pages.due, "due", is_total=True),
    page("schedule/", schedule_pages.schedule, "schedule", is_total=True),
    page("schedule/<int:level>/", schedule_pages.lane, "lane", is_total=True),
    page("timers/", timers_pages.timers, "timers", is_total=True),
    page("timers/list/", timers_pages.timer_list, "timer_list", is_total=True),
    page("timers/<int:position>/", timers_pages.timer, "timer"),
    page("transactions/", transactions_pages.transactions, "transactions", is_total=True),
    page("transactions/list/", transactions_pages.transaction_list, "transaction_list", is_total=True),
    page("transactions/<int:position>/", half_page.transaction, "transaction"),
    page("transactions/<int:position>/unmask/", half_page.unmask, "transaction_unmask", UNMASKING),
    page("redisson/", redisson_pages.queues, "delayed_queues", is_total=True),
    page("redisson/queue/", redisson_pages.queue, "delayed_queue", is_total=True),
    page("operations/", operations_pages.operations, "operations", is_total=True),
    page("operations/draft/", operations_pages.draft, "operation_draft"),
    page("operations/<str:operation_id>/", operations_pages.operation, "operation"),
    page("operations/<str:operation_id>/preview/", operations_pages.look_again, "operation_preview"),
    page("operations/<str:operation_id>/confirm/", operations_pages.confirm, "operation_confirm"),
    page("operations/<str:operation_id>/abort/", operations_pages.abort, "operation_abort"),
    page("operations/<str:operation_id>/continue/", operations_pages.go_on, "operation_continue"),
    page("operations/<str:operation_id>/approve/", operations_pages.approve, "operation_approve"),
    page("operations/<str:operation_id>/decline/", operations_pages.decline, "operation_decline"),
    page("operations/<str:operation_id>/undo/", operations_pages.undo, "operation_undo"),
    page("topics/", topics_pages.topics, "topics", is_total=True),
    page("topics/<name:name>/", topics_pages.topic, "topic", is_total=True),
    page("topics/<name:name>/tail/", topics_pages.tail, "tail", is_total=True),
    page("topics/<name:name>/<int:queue_id>/", topics_pages.queue, "queue"),
    page("topics/<name:name>/send/", send_pages.send, "send", SENDING, is_total=True),
    page("topics/<name:name>/descriptor/", descriptor_pages.descriptor, "topic_descriptor", is_total=True),
    page("topics/<name:name>/descriptor/preview/", descriptor_pages.draft, "topic_descriptor_draft", is_total=True),
    page("messages/", waiting.search, "messages", is_total=True),
    page("messages/<name:message_id>/", messages_pages.message, "message", is_total=True),
    page("messages/<name:message_id>/unmask/", messages_pages.unmask, "message_unmask", UNMASKING),
    page("messages/<name:message_id>/body", messages_pages.body, "message_body"),
    page("archive/", archive_pages.archive, "archive", is_total=True),
    page("dashboards/", dashboards_pages.dashboards, "dashboards", DASHBOARDS, is_total=True),
    page("dashboards/run/", dashboards_pages.run, "dashboards_run", RUNNING),
    page("dashboards/cancel/", dashboards_pages.cancel, "dashboards_cancel", RUNNING),
    page("dashboards/<str:name>/", dashboards_pages.dashboard, "dashboard", DASHBOARDS, is_total=True),
    page("dashboards/<str:name>/series/<str:series>.json", dashboards_pages.series, "dashboard_series", DASHBOARDS),
    page("dashboards/<str:name>/data.<str:form>", dashboards_pages.data, "dashboard_data", DASHBOARDS),
    page("dead-letters/", dead_letters_pages.groups, "dead_letters", is_total=True),
    page("dead-letters/of/<name:name>/", dead_letters_pages.letters, "dead_letters_of", is_total=True),
    page("groups/", groups_pages.groups, "groups", is_total=True),
    page("groups/<name:name>/", groups_pages.group, "group", is_total=True),
    page("compare/", comparison.compare, "compare", is_total=True),
    page("clients/", clients.clients, "clients", is_total=True),
    page("clients/one/", clients.client, "client", is_total=True),
    page("broker/", brokers_pages.broker, "broker", is_total=True),
    page("alerts/", alerts_pages.alerts, "alerts", ALERTS, is_total=True),
    page("alerts/silence/", alerts_pages.silence, "alert_silence", SILENCING),
    page("alerts/rules/new/", alerts_pages.new_rule, "alert_rule_new", is_total=True),
    page("alerts/rules/<int:rule_id>/", alerts_pages.rule, "alert_rule", is_total=True),
    page("alerts/rules/<int:rule_id>/test/", alerts_pages.test_rule, "alert_rule_test"),
    page("audit/", audit_pages.audit, "audit", AUDIT, is_total=True),
    page("audit/data.<str:form>", audit_pages.data, "audit_data", AUDIT),
    page("access/", access_pages.users, "access", BROKER_USERS, is_total=True),
    page("access/<name:name>/", access_pages.user, "access_user", BROKER_USERS, is_total=True),
    page("people/", people_pages.people, "people", PEOPLE, is_total=True),
    page("people/<int:person_id>/", people_pages.person, "person", PEOPLE, is_total=True),
    page("see-as/", people_pages.see, "see_as", PEOPLE),
    page("see-as/stop/", people_pages.stop_seeing, "see_as_stop", EVERYBODY),
    page("tokens/", people_pages.api_tokens, "tokens", TOKENS, is_total=True),
    page("api/docs/", reference_pages.reference, "reference"),
    page("api/docs/<str:operation>/", reference_pages.operation, "reference_operation"),
    page("design/", components.design, "design", STAFF),
    page("views/", saved_view_pages.saved_views, "saved_views", is_total=True),
    page("views/keep/", saved_view_pages.keep, "saved_view_keep"),
    page("views/<int:view_id>/", saved_view_pages.change, "saved_view"),
    page("views/<int:view_id>/delete/", saved_view_pages.delete, "saved_view_delete"),
    page("find/", palette.find, "find", is_total=True),
    page("find/key/", under_key.open_key, "find_key"),
    page("find/act/", palette.act, "find_act"),
    page("login/", sign_in.SignIn.as_view(), "login", EVERYBODY),
    page("admin/login/", sign_in.to_sign_in, "admin_sign_in", EVERYBODY),
    page("login/second/", sign_in.second_step, "second_step", EVERYBODY),
    page("account/settings/", own_settings.own_settings, "own_settings", EVERYBODY),
    page("account/password/", account.own_password, "own_password", EVERYBODY),
    page("account/second-factor/", account.own_second_factor, "own_second_factor", EVERYBODY),
    page("login/provider/", sign_on.leave, "sign_on", EVERYBODY),
    page("login/provider/back/", sign_on.back, "sign_on_back", EVERYBODY),
    page("prove/", presence.prove, "prove", EVERYBODY),
    page("prove/form/", presence.send_again, "send_again", EVERYBODY),
    page("logout/", LogoutView.as_view(), "logout", EVERYBODY),
    page("theme/", preferences.set_theme, "set_theme", EVERYBODY),
    page("zone/", preferences.set_zone, "set_zone", EVERYBODY),
    page("density/", preferences.set_density, "set_density", EVERYBODY),
    page("favicon.ico", frame.favicon, "favicon", EVERYBODY),
    page("healthz", health.healthz, "healthz", EVERYBODY),
    page("readyz", health.readyz, "readyz", EVERYBODY),
    page("metrics", health.metrics, "metrics", EVERYBODY),
]

#: pages that change in place, by the name that their sockets' addresses begin with
live_pages: Mapping[str, LiveKind] = {
    **overview_pages.LIVE,
    **due_pages.LIVE,
    **topics_pages.LIVE,
    **groups_pages.LIVE,
    **clients.LIVE,
    **schedule_pages.LIVE,
    **timers_pages.LIVE,
    **transactions_pages.LIVE,
    **redisson_pages.LIVE,
    "operation": LiveKind(
        lambda name, query: live_operation(name, whole_number(query.get("after")) or 0),
        # what was sent goes on as groups move
        frozenset({"offsets"}),
        frozenset({"after"}),
        takes_argument=True,
    ),
}
