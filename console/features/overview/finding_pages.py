"""The page of one finding: it is snoozed, ignored, or counted again here, with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from console.features.overview.finding_kinds import CODES, Finding, FindingCode
from console.features.overview.finding_marks import FindingMark, place_of
from console.features.overview.finding_operations import LiftFinding, SnoozeFinding
from console.features.overview.pages import read_overview
from console.operations import workflow
from console.operations.actor import SILENCE_ALERTS, Actor
from console.operations.errors import InvalidParameter, NotAllowed, NotPossible, OutOfReach, words
from console.operations.typed_moments import bound_ms
from console.security.topic_scope import current_scope
from console.site.clock import real_now_ms as now_ms
from console.site.mirrored import cluster
from console.site.parsing import whole_number

#: offered lengths, in minutes; 0: until it changes
LENGTHS_MIN = (60, 1_440, 0)
_FIELDS = ("minutes", "until", "reason")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the form: the text that stands in it, and what is wrong with that."""

    name: str
    value: str
    fault: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    """A finding as this page has it: what it is, with its mark where it is put off."""

    finding: Finding
    mark: FindingMark | None


@require_http_methods(["GET", "HEAD", "POST"])
def finding(request: HttpRequest) -> HttpResponse:
    """Show the form of a finding, or do what it asks for."""
    code = CODES.get(request.GET.get("kind", ""))
    if code is None:
        raise Http404(gettext("There is no such kind of finding."))
    found = _found(code, request.GET.get("subject", ""), request.GET.get("broker", ""))
    if request.method != "POST":
        return _page(request, code, found, {}, {})
    is_lift = request.POST.get("act") == "lift"
    actor, kind = Actor.of(request.user), LiftFinding.name if is_lift else SnoozeFinding.name
    try:
        actor.require(SILENCE_ALERTS, kind)
    except NotAllowed as error:
        raise PermissionDenied(error.permission) from None
    usual = {"minutes": str(LENGTHS_MIN[0])}
    given = {name: request.POST.get(name, usual.get(name, "")).strip()[:1_000] for name in _FIELDS}
    faults: dict[str, str] = {}
    if not given["reason"]:
        faults["reason"] = gettext("Enter a reason. It is kept.")
    until_ms = None if is_lift else _until_ms(given, faults)
    if found is None or faults:
        return _page(request, code, found, given, faults, status=422)
    parameters: dict[str, Any] = {"kind": code.value.name, "subject": found.finding.key}
    if is_lift and found.mark is not None:
        # the mark may be one in total, or that of what the finding was before it got better
        parameters |= {"kind": found.mark.kind, "place": found.mark.place}
    else:
        parameters["place"] = place_of(found.finding, cluster())
    if not is_lift:
        parameters["until_ms"] = until_ms
    try:
        workflow.start(kind, parameters, actor, reason=given["reason"])
    except InvalidParameter as error:
        faults["until"] = words(error)
    except (OutOfReach, NotPossible) as error:
        faults["reason"] = words(error)
    if faults:
        return _page(request, code, found, given, faults, status=422)
    answer = redirect("overview")
    answer.status_code = 303
    return answer


def _found(code: FindingCode, key: str, broker: str) -> _Found | None:
    """Return the finding if it is there. Raises Http404 for one about what is not seen."""
    seen, about = current_scope(), code.value.about
    if about == "group":
        seen.require_group(key)
    elif about == "queue":
        seen.require_queue(key)
    data = read_overview()
    rows = [_Found(each, None) for each in data.findings]
    rows += [_Found(each.finding, each.mark) for each in data.put_off]
    asked = (code, key, broker)
    return next((row for row in rows if (row.finding.code, row.finding.key, row.finding.broker) == asked), None)


def _until_ms(given: Mapping[str, str], faults: dict[str, str]) -> int | None:
    """Return the moment that was typed, or now plus the chosen length; None: until it changes. Raises Http404 for a
    length that was not offered."""
    if given["until"]:
        return bound_ms(given["until"], "until", faults, "from_now")
    minutes = whole_number(given["minutes"])
    if minutes not in LENGTHS_MIN:
        raise Http404
    return now_ms() + minutes * 60_000 if minutes else None


def _page(
    request: HttpRequest,
    code: FindingCode,
    found: _Found | None,
    given: Mapping[str, str],
    faults: Mapping[str, str],
    status: int = 200,
) -> HttpResponse:
    shown = {"minutes": str(LENGTHS_MIN[0]), **given}
    context = {
        "here": "overview",
        "label": code.value.label,
        "found": found,
        "now_ms": now_ms(),
        "lengths": LENGTHS_MIN,
        "may_snooze": request.user.has_perm(SILENCE_ALERTS) and (found is None or found.finding.may_be_marked),
        "fields": {name: Field(name, shown.get(name, ""), faults.get(name, "")) for name in _FIELDS},
    }
    return render(request, "overview/finding_page.html", context, status=status)
