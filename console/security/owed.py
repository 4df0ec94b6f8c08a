"""What somebody who has signed in still owes before anything is served: a password of one's own, a second factor.

Who has an account by an administrator's hand, or by a first start, has a password that somebody else knows. A person
whose roles demand a second factor has to set one up. Until then every page leads to where that is done, and websockets
and the reference of REST know the session as nobody's.

What is owed stands in the session, where it is asked for with each request; a setting that demands second factors of a
role that somebody gets later is seen by the groups then. Who signs in by a provider owes neither: both are its matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.signals import user_logged_in
from django.db.models.signals import post_save
from django.http import HttpRequest

from console.run.private_files import forget_first_login
from console.security import second_factor
from console.security.door import door
from console.security.models import PasswordDue

#: what is owed, which is also the name of the page's address where it is paid
PASSWORD, FACTOR = "own_password", "own_second_factor"
#: in the session: that the password is to be changed, and how the second step was done
_DUE, _STEP = "password_due", "second_step"
#: the provider has asked for what it wants
PROVIDER = "provider"


def connect() -> None:
    """Begin to listen to sign-ins and to passwords that are set; twice is once."""
    user_logged_in.connect(_signed_in, dispatch_uid="console.owed.signed_in")
    post_save.connect(_saved, sender=get_user_model(), dispatch_uid="console.owed.saved")


def of(session: Mapping[str, Any], user: Any) -> str:
    """Return what this session owes first; "": nothing. Asks the database where second factors are demanded only."""
    if session.get(_DUE):
        return PASSWORD
    if not settings.SECOND_FACTOR_ROLES or session.get(_STEP):
        return ""
    groups = user.groups.values_list("name", flat=True)
    return FACTOR if second_factor.is_demanded(groups, is_superuser=user.is_superuser) else ""


def is_due(session: Mapping[str, Any]) -> bool:
    """Tell whether the password of this session is to be changed."""
    return bool(session.get(_DUE))


def note_step(request: HttpRequest, how: str) -> None:
    """Keep in the session how the second step was done: PROVIDER, or what `second_factor.verify` says."""
    request.session[_STEP] = how


def step_done(request: HttpRequest) -> str:
    """Return how the second step of this session was done; "": there was none."""
    return str(request.session.get(_STEP, ""))


def pay_password(request: HttpRequest) -> None:
    """Note that the person has set a password of one's own."""
    PasswordDue.objects.filter(user=request.user.pk).delete()
    request.session.pop(_DUE, None)


def _signed_in(sender: Any, request: HttpRequest, user: Any, **kwargs: Any) -> None:
    request.session.pop(_STEP, None)
    request.session.pop(_DUE, None)
    if PasswordDue.objects.filter(user=user.pk).exists():
        request.session[_DUE] = True


def _saved(sender: Any, instance: Any, created: bool, **kwargs: Any) -> None:
    """Note a password that somebody else has set; a hash that is only computed anew is none."""
    opened, is_set = door(), created or getattr(instance, "_password", None) is not None
    if is_set and not created:
        forget_first_login(instance.get_username())
    if opened is None or not is_set or not instance.has_usable_password():
        return
    number = opened.who[1]
    if opened.request is not None and number in (None, instance.pk):
        return
    PasswordDue.objects.get_or_create(user=instance)
