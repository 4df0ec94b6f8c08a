"""From the forms of topics and groups to an operation that is previewed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict

from console.features.topics import setting_forms
from console.features.topics.operations import ChangeGroup, ChangeTopic, undo_parameters
from console.features.topics.setting_fields import GROUP, TOPIC
from console.operations.forms import Form, draft_of_form, operation_of
from console.operations.forms import draft as drafted
from console.site.clock import now_ms
from console.ui.form_addresses import form_of

_CHANGES = (ChangeTopic.name, ChangeGroup.name)


@login_required
@form_of("topics")
def draft(request: HttpRequest) -> HttpResponse:
    """Preview what would be made, changed or deleted; nothing is done yet."""
    return draft_of_form(request, "settings", _parameters, _again)


@login_required
@form_of("operation", "operation_id")
def undo(request: HttpRequest, operation_id: str) -> HttpResponse:
    """Preview putting settings back as they were before an operation."""
    row = operation_of(operation_id, _CHANGES)
    labels = list(row.items.filter(outcome="changed").values_list("label", flat=True))
    return drafted(request, "settings", row.kind, lambda: undo_parameters(labels))


def _again(given: QueryDict, faults: Mapping[str, str]) -> Form | None:
    """Of a topic or a group that is to be made or changed."""
    family, _dot, what = given.get("kind", "").partition(".")
    if what == "delete":
        return None
    name, sent = given.get("name", "").strip(), {each: str(given[each]) for each in given}
    if what == "create":
        empty = setting_forms.new_topic_form() if family == "topics" else setting_forms.new_group_form()
        return Form("settings/create.html", {"form": setting_forms.as_sent(empty, sent, faults)})
    there = setting_forms.topic_form(name) if family == "topics" else setting_forms.group_form(name)
    context = {"form": setting_forms.as_sent(there, sent, faults), "data": {"now_ms": now_ms()}}
    return Form("settings/change.html", context)


def _parameters(given: QueryDict) -> dict[str, Any]:
    """The name, and the settings that differ from what the form was made of."""
    name, kind = given.get("name", "").strip(), given.get("kind", "")
    if kind.endswith(".delete"):
        return {"name": name}
    known = TOPIC if kind.startswith("topics.") else GROUP
    settings = {
        each.name: given[each.name]
        for each in known
        if each.name in given and given[each.name] != given.get(f"was_{each.name}")
    }
    return {"name": name, "settings": settings}
