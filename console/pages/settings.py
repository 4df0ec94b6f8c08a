"""From the forms of topics and groups to an operation that is previewed."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.views.decorators.http import require_POST

from console.operations.setting_fields import GROUP, TOPIC
from console.operations.settings import ChangeGroup, ChangeTopic, undo_parameters
from console.pages.drafting import draft as drafted
from console.pages.drafting import draft_of_form, operation_of

_CHANGES = (ChangeTopic.name, ChangeGroup.name)


@login_required
@require_POST
def draft(request: HttpRequest) -> HttpResponse:
    """Preview what would be made, changed or deleted; nothing is done yet."""
    return draft_of_form(request, "settings", _parameters)


@login_required
@require_POST
def undo(request: HttpRequest, operation_id: str) -> HttpResponse:
    """Preview putting settings back as they were before an operation."""
    row = operation_of(operation_id, _CHANGES)
    labels = list(row.items.filter(outcome="changed").values_list("label", flat=True))
    return drafted(request, "settings", row.kind, lambda: undo_parameters(labels))


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
