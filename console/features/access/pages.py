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
from console.features.access.operations import entry_words
from console.operations.actor import CHANGE_ACCESS
from console.operations.shown_once import OVERLAP_HOURS
from console.security.topic_scope import TopicScope, authorised
from console.site.broker import ask_each
from console.site.clock import now_ms
from console.site.evidence import Evidence, StaleReason
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


@dataclass(frozen=True, slots=True)
class Users:
    """Those of the brokers that answer, by name; `is_told`: one of them did."""

    rows: tuple[UserRow, ...]
    evidence: Evidence
    is_told: bool
    has_several: bool

    @property
    def is_off(self) -> bool:
        """Tell whether the brokers say that they have no access control."""
        return not self.is_told and self.evidence.stale_reason is StaleReason.NOT_SUPPORTED


@require_safe
def users(request: HttpRequest) -> HttpResponse:
    """List the users of the brokers that answer."""
    found = read_users("")
    shown: dict[str, Any] = {
        "here": "access",
        "rows": found.rows,
        "is_told": found.is_told,
        "is_off": found.is_off,
        "evidence": found.evidence,
        "has_several": found.has_several,
        "now_ms": now_ms(),
        "number": uuid.uuid4(),
    }
    return render(request, "access/list.html", shown)


@require_safe
def user(request: HttpRequest, name: str) -> HttpResponse:
    """Show one user, and what can be done with it."""
    found = read_users(name)
    row = next((each for each in found.rows if each.user.name == name), None)
    if row is None and found.is_told:
        raise Http404(_("There is no such broker user."))
    shown: dict[str, Any] = {
        "here": "access",
        "name": name,
        "row": row,
        "evidence": found.evidence,
        "has_several": found.has_several,
        "now_ms": now_ms(),
        "actions": ACTIONS,
        "overlap_hours": f"{OVERLAP_HOURS:g}",
        "number": uuid.uuid4(),
    }
    return render(request, "access/user.html", shown)


@authorised
def read_users(scope: TopicScope, containing: str) -> Users:
    """Return the users; raise PermissionDenied for who sees some topics only: a user may be about any."""
    if not scope.see_all:
        raise PermissionDenied(CHANGE_ACCESS)
    of = cluster()
    codes = (Request.AUTH_LIST_USER, Request.AUTH_LIST_ACL)
    answers, evidence = ask_each(lambda admin: admin.access_users(containing), of, requests=codes)
    found: dict[str, dict[str, AccessUser]] = {}
    for one, told in answers:
        for each in told:
            found.setdefault(each.name, {})[one.name] = each
    rows = tuple(_row(found[name], len(answers)) for name in sorted(found))
    return Users(rows, evidence, is_told=bool(answers), has_several=of.has_several)


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
