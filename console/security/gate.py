"""The gate before every page: the permissions that a page needs are declared with its address.

A page that declares none is for those who may see the console; permissions for what a page does, its handler asks for.

A new installation has three groups: viewer, operator, administrator. Afterwards they are the owner's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.contrib.auth.models import Group, Permission
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import URLPattern, path

from console.security import owed, presence, see_as
from console.security.door import Door, through
from console.security.own_role import ADMINISTRATOR
from console.security.topic_scope import NOTHING, VisibleTopics, scoped, set_scope, visible_topics

#: without it nobody sees anything
VIEW = "console.view_console"
VIEWER, OPERATOR = "viewer", "operator"
_SEE = ("view_console", "view_dashboardrun", "view_operation", "view_auditentry", "view_alert")
_ACT = (
    "steer_timers",
    "pause_timers",
    "steer_delayed_queues",
    "steer_transactions",
    "resend_dead_letters",
    "send_messages",
    "reset_offsets",
    "change_settings",
    "run_dashboards",
    "silence_alerts",
)
#: codenames by app; "*" is every permission of the app
ROLES: Mapping[str, Mapping[str, Iterable[str]]] = {
    VIEWER: {"console": _SEE},
    OPERATOR: {"console": (*_SEE, *_ACT)},
    ADMINISTRATOR: {"console": ("*",), "broker": ("*",), "auth": ("*",)},
}


def ensure_roles(using: str = "default") -> None:
    """Create the groups that are missing; existing ones stay as their owner has made them."""
    group_rows = Group.objects.using(using)
    permission_rows = Permission.objects.using(using)
    for name, wanted in ROLES.items():
        if group_rows.filter(name=name).exists():
            continue
        group = group_rows.create(name=name)
        for app, codenames in wanted.items():
            found = permission_rows.filter(content_type__app_label=app)
            group.permissions.add(*(found if "*" in codenames else found.filter(codename__in=codenames)))


View = Callable[..., HttpResponseBase]


@dataclass(frozen=True, slots=True)
class Access:
    """The access to a page: for users who are signed in, may see the console, and have these permissions as well."""

    permissions: tuple[str, ...] = ()
    #: asked for only where a form is sent: whoever comes to its address otherwise is led elsewhere
    to_send: tuple[str, ...] = ()
    is_for_staff: bool = False
    #: it is about all topics: not for who sees some of them only
    needs_all_topics: bool = False
    #: for strangers, too; the page itself may ask for something
    is_open: bool = False

    def missing(self, user: Any, method: str | None) -> str | None:
        """Return a permission that this user lacks to get the page by this method; None: there is none."""
        wanted = (VIEW, *self.permissions, *(self.to_send if method == "POST" else ()))
        lacking = next((permission for permission in wanted if not user.has_perm(permission)), None)
        return "staff" if lacking is None and self.is_for_staff and not user.is_staff else lacking

    def lets_in(self, user: Any, visible: VisibleTopics) -> bool:
        """Tell whether somebody who sees these topics gets the page."""
        return self.missing(user, "GET") is None and (visible.is_all or not self.needs_all_topics)


SIGNED_IN, STAFF, EVERYBODY = Access(), Access(is_for_staff=True), Access(is_open=True)


def page(route: str, view: View, name: str, access: Access = SIGNED_IN, *, is_total: bool = False) -> URLPattern:
    """Return the address of a page, with who gets it; a page that says nothing is for those who are signed in.

    `is_total`: where no broker is chosen it shows all of the cluster in total; others show the first one.
    """

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return view(request, *args, **kwargs)

    setattr(guarded, _ACCESS, access)
    setattr(guarded, _TOTAL, is_total)
    return path(route, guarded, name=name)


def access_of(view: Any) -> Access:
    """Return who gets what this view answers."""
    found: Access = getattr(view, _ACCESS, SIGNED_IN)
    return found


def is_total(view: Any) -> bool:
    """Tell whether what this view answers is of all brokers where none is chosen."""
    return bool(getattr(view, _TOTAL, False))


_ACCESS, _TOTAL = "access", "is_total"
#: refused is who sees some topics only
TOPICS = "topics"


#: Django's own admin has its own door: staff only
OPEN_SPACES = frozenset({"admin"})
#: what it has for who sees some topics only: it shows rows as they are, of all topics
_LIMITED_ADMIN = frozenset({"index", "login", "logout", "password_change", "password_change_done", "jsi18n"})
#: what changes nothing but the own session or password
_OWN_ADMIN = frozenset({"login", "logout", "password_change", "jsi18n", "autocomplete"})


def _check_admin(request: HttpRequest, url_name: str | None, visible: VisibleTopics) -> None:
    """Raise PermissionDenied for who is signed in and has no place in Django's admin, or not on this page of it."""
    if not request.user.is_authenticated or url_name == "logout":
        return
    if not request.user.is_staff:
        raise PermissionDenied("staff")
    if not visible.is_all and url_name not in _LIMITED_ADMIN:
        raise PermissionDenied(TOPICS)


class Gate:
    """Middleware that stands behind authentication."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer with no scope until process_view says who the user is; the scope ends with the request."""
        with scoped(NOTHING), through(Door(request)):
            return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        """Redirect strangers to the login page; raise PermissionDenied for users who may not see the page."""
        match = request.resolver_match
        access = access_of(view)
        is_admin = match is not None and bool(OPEN_SPACES & set(match.namespaces))
        if request.user.is_authenticated and (is_admin or not access.is_open):
            where = owed.of(request.session, request.user)
            if where and not (is_admin and match is not None and match.url_name == "logout"):
                return redirect(where)
        see_as.enter(request, match.url_name if match is not None else None, is_admin=is_admin)
        visible = visible_topics(request.user) if request.user.is_authenticated else NOTHING
        set_scope(visible)
        if request.user.is_authenticated and (is_admin or not access.is_open) and request.user.has_perm(VIEW):
            see_as.let_in(request)
        if match is not None and is_admin:
            _check_admin(request, match.url_name, visible)
            is_change = request.method == "POST" and request.user.is_authenticated and match.url_name not in _OWN_ADMIN
            must_prove = is_change and not presence.is_proved(request)
            return presence.ask_for(request) if must_prove else None
        if match is None or access.is_open:
            return None
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        if missing := access.missing(request.user, request.method):
            raise PermissionDenied(missing)
        if access.needs_all_topics and not visible.is_all:
            raise PermissionDenied(TOPICS)
        return None
