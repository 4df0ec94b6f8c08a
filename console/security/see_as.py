"""To see the console as a role or as somebody else sees it, for who administers people.

What is shown is what both the one who looks and the one who is looked as may see: never more than the own rights.
Nothing can be changed meanwhile but to stop, and to sign out: every form is refused, and so are the own account's pages
and `/admin/`, which shows more than the console does. What is seen as stands in the session; it ends with it, and when
the right to administer people is gone, or whoever is looked as.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from console.security.models import TopicPermission
from console.security.topic_scope import ALL, VisibleTopics, visible_topics

#: in the session: what is seen as, and the number of its row
KEY = "seen_as"
ROLE, USER = "role", "user"
#: without it nobody sees as anybody
ADMINISTER = "auth.change_user"
#: what a refusal says
REFUSED = "see_as"
STOP = "see_as_stop"
#: forms that are taken all the same
_TAKEN = frozenset({STOP, "logout"})
#: pages of the own account, and of signing in
_OWN = frozenset(
    {
        "own_settings",
        "own_password",
        "own_second_factor",
        "second_step",
        "prove",
        "sign_on",
        "sign_on_back",
        "login",
        "admin_sign_in",
    }
)
_SAFE = ("GET", "HEAD", "OPTIONS")
#: as the identity provider's sign-in has it: the role that opens the pages of the staff
_OF_STAFF = "administrator"


@dataclass(frozen=True, slots=True)
class Subject:
    """The role or user that the console is seen as."""

    kind: str
    number: int
    name: str
    permissions: frozenset[str]
    topics: VisibleTopics
    is_staff: bool

    @property
    def is_role(self) -> bool:
        """Tell whether it is a role."""
        return self.kind == ROLE


def subject_of(kind: str, number: int) -> Subject | None:
    """Return what can be seen as; None for a role or an active user that there is not."""
    if kind == ROLE:
        group = Group.objects.filter(pk=number).first()
        return None if group is None else _role(group)
    user: Any = get_user_model().objects.filter(pk=number, is_active=True).first() if kind == USER else None
    if user is None:
        return None
    permissions = frozenset(user.get_all_permissions())
    return Subject(USER, user.pk, user.get_username(), permissions, visible_topics(user), user.is_staff)


def _role(group: Group) -> Subject:
    rows = group.permissions.values_list("content_type__app_label", "codename")
    patterns = set(TopicPermission.objects.filter(group=group.pk).values_list("pattern", flat=True))
    topics = VisibleTopics.of(patterns) if patterns else ALL
    permissions = frozenset(f"{app}.{codename}" for app, codename in rows)
    return Subject(ROLE, group.pk, group.name, permissions, topics, group.name == _OF_STAFF)


class SeenAs:
    """Whoever looks, by the own name, with the rights that the one who is looked as has, too."""

    is_authenticated, is_anonymous, is_active, is_superuser = True, False, True, False

    def __init__(self, viewer: Any, subject: Subject) -> None:
        self._viewer = viewer
        self.subject = subject
        self.pk = self.id = viewer.pk
        self.is_staff = viewer.is_staff and subject.is_staff
        #: those of the viewer are all
        self.seen_topics = subject.topics

    def __str__(self) -> str:
        return self.get_username()

    def get_username(self) -> str:
        """Return the name of who looks."""
        return str(self._viewer.get_username())

    def has_perm(self, permission: str, obj: Any = None) -> bool:
        """Tell whether both have the permission."""
        return permission in self.subject.permissions and self._viewer.has_perm(permission)

    def has_perms(self, permissions: Iterable[str], obj: Any = None) -> bool:
        """Tell whether both have all of the permissions."""
        return all(map(self.has_perm, permissions))

    def has_module_perms(self, app: str) -> bool:
        """Tell whether both have any permission of the app."""
        return any(each.startswith(f"{app}.") and self._viewer.has_perm(each) for each in self.subject.permissions)

    def get_all_permissions(self, obj: Any = None) -> set[str]:
        """Return the permissions that both have."""
        return set(self.subject.permissions & self._viewer.get_all_permissions())


def seen(session: Mapping[str, Any], user: Any) -> SeenAs | None:
    """Return whom this session sees as; None: it sees as itself, or may not see as others any more."""
    wanted = session.get(KEY)
    if not isinstance(wanted, list) or len(wanted) != 2 or not may_see_as(user):
        return None
    subject = subject_of(*wanted)
    return None if subject is None else SeenAs(user, subject)


def may_see_as(user: Any) -> bool:
    """Tell whether somebody administers people, of all topics."""
    return bool(user.is_authenticated and user.has_perm(ADMINISTER) and visible_topics(user).is_all)


def enter(request: Any, url_name: str | None, *, is_admin: bool) -> None:
    """Have the request be of whom its session sees as; raises PermissionDenied for what changes anything meanwhile."""
    if not request.user.is_authenticated or KEY not in request.session:
        return
    found = seen(request.session, request.user)
    if found is None:
        del request.session[KEY]
        return
    request.user, request.seeing_as = found, found.subject
    is_change = request.method not in _SAFE
    is_closed = url_name in _OWN or (is_admin and url_name != "logout")
    if (is_change or is_closed) and url_name not in _TAKEN:
        let_in(request)
        raise PermissionDenied(REFUSED)


def let_in(request: Any) -> None:
    """Mark the request as of somebody who is in the console: what is refused is said within its frame."""
    request.is_let_in = True


def subject_in(request: HttpRequest) -> Subject | None:
    """Return whom this request sees as; None: it is of whoever is signed in."""
    found: Subject | None = getattr(request, "seeing_as", None)
    return found
