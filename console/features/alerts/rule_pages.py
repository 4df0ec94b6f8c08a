"""Rules of alerts: the form of one, and from it, or from a button, to an operation that is previewed."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from console.features.alerts import rule_fields
from console.features.alerts.deliveries import secret_of_rule
from console.features.alerts.models import AlertRule
from console.features.alerts.operations import UNDONE_BY, undo_parameters
from console.features.alerts.preview import look
from console.operations.actor import ADD_ALERT_RULE, CHANGE_ALERT_RULE, DELETE_ALERT_RULE
from console.operations.forms import draft as drafted
from console.operations.forms import draft_of_form, operation_of
from console.operations.reading import number_of
from console.security.topic_scope import eyes
from console.ui.form_addresses import form_of
from console.ui.live import number


@dataclass(frozen=True, slots=True)
class Field:
    """One setting of the form: what stands in it, and what is wrong with that."""

    name: str
    value: str
    fault: str = ""


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def new_rule(request: HttpRequest) -> HttpResponse:
    """A rule that is not there yet."""
    _require(request, ADD_ALERT_RULE)
    now = _forms_texts(rule_fields.DEFAULTS)
    if request.method != "POST":
        return _page(request, None, now, {})
    given = _given(request.POST)
    settings, faults = rule_fields.read({**now, **given})
    if faults:
        return _page(request, None, {**now, **given}, faults)
    return drafted(request, "alerts", "alerts.create", lambda: {"settings": settings}, _operation(request))


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    """One that is there; what is sent as it is already is not looked at."""
    _require(request, CHANGE_ALERT_RULE)
    row = AlertRule.objects.filter(pk=rule_id).first()
    if row is None:
        raise Http404(_("There is no such rule."))
    shown = rule_fields.shown(row)
    now = _forms_texts(shown)
    if request.method != "POST":
        return _page(request, row, now, {})
    given = _given(request.POST)
    settings, faults = rule_fields.read({name: text for name, text in given.items() if text != now[name]})
    if faults:
        return _page(request, row, {**now, **given}, faults)
    changed = {name: value for name, value in settings.items() if value != shown[name]}
    parameters = {"rule": row.pk, "settings": changed, "expected": {name: shown[name] for name in changed}}
    return drafted(request, "alerts", "alerts.change", lambda: parameters, _operation(request))


@login_required
@form_of("alerts")
def draft(request: HttpRequest) -> HttpResponse:
    """Preview what a button asks for: on, off, delete, the end of a silence."""
    return draft_of_form(request, "alerts", _parameters)


@login_required
@form_of("alerts")
def undo(request: HttpRequest, operation_id: str) -> HttpResponse:
    """Preview what takes an operation back."""
    row = operation_of(operation_id, UNDONE_BY)
    item = row.items.first()
    target, result = (item.target, item.result) if item is not None else ({}, {})
    return drafted(request, "alerts", UNDONE_BY[row.kind], lambda: undo_parameters(row.kind, target, result))


def _page(
    request: HttpRequest, row: AlertRule | None, texts: Mapping[str, str], faults: dict[str, str]
) -> HttpResponse:
    fields = {name: Field(name, text, faults.get(name, "")) for name, text in texts.items()}
    context: dict[str, Any] = {
        "here": "alerts",
        "rule": row,
        "fields": fields,
        "is_wrong": bool(faults),
        "kinds": AlertRule.What.choices,
        "number": uuid.uuid4(),
        "look": None if row is None else look(row.what, row.subject, row.limit),
        "secret": secret_of_rule(row) if row is not None and row.webhook else "",
        "may_delete": request.user.has_perm(DELETE_ALERT_RULE),
    }
    return render(request, "alerts/rule.html", context, status=422 if faults else 200)


def _require(request: HttpRequest, permission: str) -> None:
    """A rule can watch everything, so it is for who sees everything."""
    if not request.user.has_perm(permission) or not eyes().see_all:
        raise PermissionDenied(permission)


def _given(posted: QueryDict) -> dict[str, str]:
    """What was sent of the settings, with one kind of line breaks."""
    return {name: str(posted[name]).replace("\r\n", "\n") for name in rule_fields.DEFAULTS if name in posted}


def _forms_texts(settings: Mapping[str, rule_fields.Value]) -> dict[str, str]:
    """As the form sends them."""
    return {name: _text(value) for name, value in settings.items()}


def _text(value: rule_fields.Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _operation(request: HttpRequest) -> uuid.UUID | None:
    return number_of(request.POST.get("operation", ""))


def _parameters(given: QueryDict) -> dict[str, Any]:
    """Which rule or silence, and what is to be another."""
    if given.get("kind") == "alerts.end_silence":
        return {"silence": number(given.get("silence"))}
    made: dict[str, Any] = {"rule": number(given.get("rule"))}
    settings = _given(given)
    return {**made, "settings": settings} if settings else made
