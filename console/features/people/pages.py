"""People of the console with their roles, and tokens of REST."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db.models import F
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from console.features.people.limits import own_topics
from console.features.people.role_operations import role_form
from console.features.people.role_words import roles_in_words
from console.features.people.token_operations import RIGHT_WORDS
from console.operations.actor import ADD_ROLE, ADD_USER, CHANGE_ROLE, CHANGE_USER
from console.operations.models import AuditEntry
from console.security import see_as
from console.security.models import ApiToken, PasswordDue, SecondFactor
from console.security.own_role import all_own_roles
from console.site.parsing import whole_number
from console.ui.addresses import form_of
from console.ui.ordering import Sorting, asked_order

LISTED = 100
#: what the lists can be sorted by: the fields, and the order for which none was asked is the first
_PEOPLE = {"name": "username", "state": "is_active", "login": "last_login"}
_TOKENS = {"name": "name", "expires": "expires_at", "used": "last_used_at", "owner": "created_by__username"}


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token with its state as a code: valid, revoked, expired, replaced, inactive."""

    token: ApiToken
    state: str
    allowed: tuple[str, ...]


@require_safe
def people(request: HttpRequest) -> HttpResponse:
    """List the accounts, by name."""
    offset = whole_number(request.GET.get("offset")) or 0
    order = asked_order(request.GET.get("order", ""), _PEOPLE, "name")
    rows = get_user_model().objects.order_by(*_fields(order, _PEOPLE)).prefetch_related("groups")
    page = list(rows[offset : offset + LISTED + 1])
    numbers = [row.pk for row in page]
    shown: dict[str, Any] = {
        "here": "people",
        "rows": page[:LISTED],
        "total": rows.count(),
        "sorting": Sorting(order),
        "previous": max(0, offset - LISTED) if offset else None,
        "following": offset + LISTED if len(page) > LISTED else None,
        "due": set(PasswordDue.objects.filter(user__in=numbers).values_list("user_id", flat=True)),
        "second": set(SecondFactor.objects.filter(user__in=numbers).values_list("user_id", flat=True)),
        "own_roles": set(all_own_roles().values_list("pk", flat=True)),
        "roles": roles_in_words(),
        **role_form(),
        "may_add": request.user.has_perm(ADD_USER),
        "may_add_role": request.user.has_perm(ADD_ROLE),
        "may_limit": request.user.has_perm(CHANGE_ROLE),
        "number": uuid.uuid4(),
    }
    return render(request, "people/list.html", shown)


@require_safe
def person(request: HttpRequest, person_id: int) -> HttpResponse:
    """Show one account, and what can be done with it."""
    row = get_user_model().objects.filter(pk=person_id).first()
    if row is None:
        raise Http404(_("There is no such user."))
    shown: dict[str, Any] = {
        "here": "people",
        "row": row,
        "is_own": row.pk == request.user.pk,
        "has_password": row.has_usable_password(),
        "is_due": PasswordDue.objects.filter(user=row).exists(),
        "has_second": SecondFactor.objects.filter(user=row).exists(),
        "roles": roles_in_words(),
        "own_roles": set(row.groups.values_list("pk", flat=True)),
        "topics": "\n".join(own_topics(row)),
        "may_limit": request.user.has_perm(CHANGE_ROLE),
        "may_add_role": request.user.has_perm(ADD_ROLE),
        "number": uuid.uuid4(),
    }
    return render(request, "people/person.html", shown)


@require_safe
def api_tokens(request: HttpRequest) -> HttpResponse:
    """List the tokens, by name, with when each was used last."""
    offset = whole_number(request.GET.get("offset")) or 0
    order = asked_order(request.GET.get("order", ""), _TOKENS, "name")
    rows = ApiToken.objects.select_related("created_by", "replaced_by").order_by(*_fields(order, _TOKENS))
    found = list(rows[offset : offset + LISTED + 1])
    shown: dict[str, Any] = {
        "here": "tokens",
        "sorting": Sorting(order),
        "rows": [_token_row(row) for row in found[:LISTED]],
        "previous": max(0, offset - LISTED) if offset else None,
        "following": offset + LISTED if len(found) > LISTED else None,
        "rights": RIGHT_WORDS.items(),
        "days": settings.TOKEN_DAYS,
        "number": uuid.uuid4(),
    }
    return render(request, "people/tokens.html", shown)


@form_of("people")
def see(request: HttpRequest) -> HttpResponse:
    """Begin to see the console as a role or as somebody else; 404 for one that there is not."""
    if not request.user.has_perm(CHANGE_USER):
        raise PermissionDenied(CHANGE_USER)
    kind = see_as.ROLE if "role" in request.POST else see_as.USER
    subject = see_as.subject_of(kind, whole_number(request.POST.get(kind)) or 0)
    if subject is None:
        raise Http404(_("There is no such role or user."))
    _note(request, "people.see_as", subject)
    request.session[see_as.KEY] = [subject.kind, subject.number]
    return _overview()


@form_of("overview")
def stop_seeing(request: HttpRequest) -> HttpResponse:
    """See the console as oneself again."""
    subject = see_as.subject_in(request)
    if subject is None and request.user.is_authenticated:
        subject = getattr(see_as.seen(request.session, request.user), "subject", None)
    if subject is not None:
        _note(request, "people.see_as_end", subject)
    request.session.pop(see_as.KEY, None)
    return _overview()


def _note(request: HttpRequest, kind: str, subject: see_as.Subject) -> None:
    """Write into the audit who sees the console as whom."""
    user: Any = request.user
    AuditEntry.objects.create(
        user_id=user.pk,
        actor=user.get_username(),
        what=AuditEntry.What.DONE,
        kind=kind,
        result={"name": f"{subject.kind} {subject.name}"},
    )


def _overview() -> HttpResponse:
    answer = redirect("overview")
    answer.status_code = 303
    return answer


def _fields(order: str, fields: Mapping[str, str]) -> tuple[Any, ...]:
    """Return what rows are sorted by in the database: what is not known last, equals by the list's own first field."""
    field = F(fields[order.removeprefix("-")])
    first = next(iter(fields.values()))
    by = field.desc(nulls_last=True) if order.startswith("-") else field.asc(nulls_last=True)
    return by, first, "pk"


def _token_row(row: ApiToken) -> TokenRow:
    is_over = row.expires_at is not None and row.expires_at <= timezone.now()
    is_orphan = row.created_by is not None and not row.created_by.is_active
    state = "revoked" if row.revoked_at else "expired" if is_over else "inactive" if is_orphan else "valid"
    if state == "valid" and row.replaced_by_id is not None:
        state = "replaced"
    allowed = tuple(f"{'+'.join(each['actions'])} {each['pattern']}" for each in row.scopes)
    return TokenRow(row, state, allowed)
