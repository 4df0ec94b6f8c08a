"""A person's own account: the password, and the second factor with its recovery codes.

Both pages are served to who still owes what is done there, and to nobody who is not signed in. Each change asks for the
password; wrong ones count as they do at the door. What is shown once (the secret before it is confirmed, recovery
codes) stands in no address, and no cache keeps it.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth import authenticate, update_session_auth_hash
from django.contrib.auth.password_validation import password_validators_help_texts, validate_password
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from console.security import owed, second_factor

#: in the session: the secret that an authenticator has been shown and that is not confirmed yet
_OFFERED = "offered_secret"
LONGEST_PASSWORD = 4_096


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def own_password(request: HttpRequest) -> HttpResponse:
    """Ask for another password of one's own; other sessions of the account end with the old one."""
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    user: Any = request.user
    faults: dict[str, str] = {}
    if request.method == "POST":
        faults = _password_faults(request, user)
        if not faults:
            user.set_password(request.POST["new"])
            user.save(update_fields=["password"])
            update_session_auth_hash(request, user)
            owed.pay_password(request)
            return _see(owed.of(request.session, user) or settings.LOGIN_REDIRECT_URL)
    shown = {
        "faults": faults,
        "rules": " ".join(password_validators_help_texts()),
        "is_due": owed.of(request.session, user) == owed.PASSWORD,
        "has_password": user.has_usable_password(),
    }
    return render(request, "registration/own_password.html", shown, status=422 if faults else 200)


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def own_second_factor(request: HttpRequest) -> HttpResponse:
    """Show whether there is a second factor; set it up, make new recovery codes, or take it away."""
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    owes = owed.of(request.session, request.user)
    if owes == owed.PASSWORD:
        return redirect(owes)
    is_on = second_factor.is_on(request.user)
    if owes == owed.FACTOR and is_on:
        return redirect("second_step")
    if request.method != "POST":
        return _page(request, is_on=is_on)
    if (fault := _password_fault(request, "password")) is not None:
        return _page(request, is_on=is_on, faults={"password": fault})
    act = request.POST.get("act")
    if not is_on:
        return _set_up(request)
    if act == "codes":
        return _page(request, is_on=True, codes=second_factor.renew_codes(request.user))
    if act == "take_away":
        second_factor.take_away(request.user)
        owed.note_step(request, "")
        return _see(owed.FACTOR)
    return _page(request, is_on=True)


def _set_up(request: HttpRequest) -> HttpResponse:
    codes = second_factor.set_up(request.user, _offered(request), request.POST.get("code", ""))
    if codes is None:
        fault = _("This code does not match the secret. Is the clock of your device right?")
        return _page(request, is_on=False, faults={"code": fault})
    request.session.pop(_OFFERED, None)
    owed.note_step(request, second_factor.TOTP)
    return _page(request, is_on=True, codes=codes)


def _offered(request: HttpRequest) -> str:
    """Return the secret that is offered in this session: the same until it is confirmed."""
    secret = request.session.get(_OFFERED)
    if not isinstance(secret, str):
        secret = request.session[_OFFERED] = second_factor.new_secret()
    return secret


def _page(
    request: HttpRequest, *, is_on: bool, codes: list[str] | None = None, faults: dict[str, str] | None = None
) -> HttpResponse:
    user: Any = request.user
    shown: dict[str, Any] = {
        "is_on": is_on,
        "codes": codes,
        "faults": faults or {},
        "is_owed": owed.of(request.session, user) == owed.FACTOR,
        "has_password": user.has_usable_password(),
        "home": settings.LOGIN_REDIRECT_URL,
    }
    if is_on:
        shown |= {"codes_left": second_factor.codes_left(user), "is_closed": second_factor.is_closed(user)}
    else:
        secret = _offered(request)
        address = second_factor.address_of(secret, user.get_username())
        shown |= {"secret": secret, "address": address, "drawing": second_factor.drawing_of(address)}
    return render(request, "registration/own_second_factor.html", shown, status=422 if faults else 200)


def _password_faults(request: HttpRequest, user: Any) -> dict[str, str]:
    """Return all that is wrong with the fields of the form, by name: each has to be typed again."""
    new, again = request.POST.get("new", ""), request.POST.get("again", "")
    found = {"password": _password_fault(request, "password"), "new": _fault_of_new(request, user, new)}
    if new != again:
        found["again"] = _("The passwords do not match.")
    return {name: fault for name, fault in found.items() if fault is not None}


def _fault_of_new(request: HttpRequest, user: Any, new: str) -> str | None:
    """Return what is wrong with the new password by itself; None: nothing."""
    if len(new) > LONGEST_PASSWORD:
        return _("At most %(count)s characters.") % {"count": LONGEST_PASSWORD}
    try:
        validate_password(new, user)
    except ValidationError as error:
        return " ".join(error.messages)
    return _("This is your current password.") if new == request.POST.get("password") else None


def _password_fault(request: HttpRequest, field: str) -> str | None:
    """Return what is wrong with the password that was given; None: it is the person's."""
    user: Any = request.user
    found = authenticate(request, username=user.get_username(), password=request.POST.get(field, ""))
    return None if found is not None and found.pk == user.pk else _("That is not your password.")


def _see(where: str) -> HttpResponse:
    answer = redirect(where)
    answer.status_code = 303
    return answer
