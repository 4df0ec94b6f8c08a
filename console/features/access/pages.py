"""Users of the brokers' access control: the list of all, and one with secret and policies."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from broker.client.admin import AccessUser
from broker.rocketmq.acl import Action, PolicyType
from broker.rocketmq.codes import Request
from console.features.access.operations import OVERLAP_HOURS, entry_words
from console.operations.actor import CHANGE_ACCESS
from console.security.topic_scope import current_scope
from console.site.broker import ask_each
from console.site.clock import now_ms
from console.site.evidence import Evidence
from console.site.mirrored import cluster

ACTIONS = tuple(str(action) for action in Action)


@dataclass(frozen=True, slots=True)
class UserRow:
    """A user with the brokers that have it; where these differ it is as the first one has it."""

    user: AccessUser
    brokers: tuple[str, ...]
    differs: bool
    is_inner: bool
    #: resource, what the entry says, its type
    entries: tuple[tuple[str, str, str], ...]
    is_rotating: bool


@require_safe
def users(request: HttpRequest) -> HttpResponse:
    """List the users of the brokers that answer."""
    _require_all()
    rows, evidence, _is_told = _read("")
    shown: dict[str, Any] = {
        "here": "access",
        "rows": rows,
        "evidence": evidence,
        "has_several": cluster().has_several,
        "now_ms": now_ms(),
        "number": uuid.uuid4(),
    }
    return render(request, "access/list.html", shown)


@require_safe
def user(request: HttpRequest, name: str) -> HttpResponse:
    """Show one user, and what can be done with it."""
    _require_all()
    rows, evidence, is_told = _read(name)
    row = next((each for each in rows if each.user.name == name), None)
    if row is None and is_told:
        raise Http404(_("There is no such broker user."))
    shown: dict[str, Any] = {
        "here": "access",
        "name": name,
        "row": row,
        "evidence": evidence,
        "has_several": cluster().has_several,
        "now_ms": now_ms(),
        "actions": ACTIONS,
        "overlap_hours": f"{OVERLAP_HOURS:g}",
        "number": uuid.uuid4(),
    }
    return render(request, "access/user.html", shown)


def _require_all() -> None:
    """Raise PermissionDenied for who sees some topics only: a user may be about any."""
    if not current_scope().see_all:
        raise PermissionDenied(CHANGE_ACCESS)


def _read(containing: str) -> tuple[list[UserRow], Evidence, bool]:
    """Return the users, the evidence of all brokers, and whether one of them answered."""
    codes = (Request.AUTH_LIST_USER, Request.AUTH_LIST_ACL)
    answers, evidence = ask_each(lambda admin: admin.access_users(containing), cluster(), requests=codes)
    found: dict[str, dict[str, AccessUser]] = {}
    for one, told in answers:
        for each in told:
            found.setdefault(each.name, {})[one.name] = each
    return [_row(found[name], len(answers)) for name in sorted(found)], evidence, bool(answers)


def _row(at: Mapping[str, AccessUser], asked: int) -> UserRow:
    first = next(iter(at.values()))
    entries = [
        (str(each.resource), entry_words(each), str(kind))
        for kind in PolicyType
        for each in first.policies.get(kind, ())
    ]
    return UserRow(
        user=first,
        brokers=tuple(at),
        differs=len(at) < asked or any(each != first for each in at.values()),
        is_inner=first.name == settings.ACCESS_KEY,
        entries=tuple(entries),
        is_rotating=bool(first.previous_until_ms and first.previous_until_ms > now_ms()),
    )
