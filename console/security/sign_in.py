"""Signing in by name and password, and then, for who has set one up, by the second factor.

Nobody is signed in before both steps are done: in between the session holds whose password was right, for five minutes,
and no door knows it as anybody's. Wrong codes count as wrong passwords do.
"""

from __future__ import annotations

import time
from typing import Any

from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.contrib.auth import get_user_model, login
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.signals import user_login_failed
from django.contrib.auth.views import LoginView, redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from console.security import owed, second_factor, sign_on

#: in the session: whose password was right, and when
_HALF = "half_signed_in"
#: how long the second step may take
PATIENCE_S = 300
_SEE_OTHER = 303


class SignIn(LoginView):
    """The page that asks for name and password."""

    redirect_authenticated_user = True
    extra_context = {"provider": sign_on.label}

    def get_success_url(self) -> str:
        """Return where to go on: first to what is owed, as doors lead here that know no session that owes."""
        user = self.request.user
        where = owed.of(self.request.session, user) if user.is_authenticated else ""
        return reverse(where) if where else str(super().get_success_url())

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Sign in, or ask for the second factor of who has one."""
        user: Any = form.get_user()
        if not second_factor.is_on(user):
            return super().form_valid(form)
        session = self.request.session
        # another key: somebody may have given the browser the one that it came with
        session.cycle_key()
        session[_HALF] = {
            "user": user.pk,
            "backend": user.backend,
            "password": user.get_session_auth_hash(),
            "at_s": int(time.time()),
        }
        return HttpResponseRedirect(f"{reverse('second_step')}?{urlencode({'next': self.get_redirect_url()})}")


def to_sign_in(request: HttpRequest) -> HttpResponse:
    """Redirect from the door of Django's admin to the one there is."""
    given = request.GET.get("next", "")
    return redirect_to_login(given) if given else redirect("login")


@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def second_step(request: HttpRequest) -> HttpResponse:
    """Ask for a code of who gave the right password, and sign in by the right one."""
    back = _back(request)
    user, backend = _half(request)
    if user is None:
        request.session.pop(_HALF, None)
        return redirect_to_login(back)
    credentials = {"username": user.get_username()}
    if not AxesProxyHandler.is_allowed(request, credentials):
        return sign_on.locked(request, None, credentials)
    is_wrong = False
    if request.method == "POST":
        how = second_factor.verify(user, request.POST.get("code", ""))
        if how:
            request.session.pop(_HALF, None)
            if not request.user.is_authenticated:
                login(request, user, backend=backend)
            owed.note_step(request, how)
            answer = HttpResponseRedirect(back)
            answer.status_code = _SEE_OTHER
            return answer
        user_login_failed.send(__name__, credentials={**credentials, "why": "wrong code"}, request=request)
        is_wrong = True
    shown = {"next": back, "is_wrong": is_wrong, "is_closed": second_factor.is_closed(user)}
    return render(request, "registration/second_step.html", shown, status=422 if is_wrong else 200)


def _half(request: HttpRequest) -> tuple[Any, str]:
    """Return whose second step this is, and the backend that knew the password; None: nobody's, or too late.

    Who is signed in, but gave no second factor before one was demanded, gives it here, too.
    """
    if request.user.is_authenticated:
        is_owed = owed.of(request.session, request.user) == owed.FACTOR
        return (request.user if is_owed and second_factor.is_on(request.user) else None), ""
    half = request.session.get(_HALF)
    if not isinstance(half, dict) or time.time() - half["at_s"] > PATIENCE_S:
        return None, ""
    user: Any = get_user_model()._default_manager.filter(pk=half["user"], is_active=True).first()
    if user is None or not second_factor.is_on(user):
        return None, ""
    is_same = half["password"] in {user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()}
    return (user if is_same else None), str(half["backend"])


def _back(request: HttpRequest) -> str:
    """Return where one goes on: an address of ours that was named, or the overview."""
    given = request.POST.get("next") or request.GET.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(given, {request.get_host()}, require_https=request.is_secure())
    return given if is_ours else str(settings.LOGIN_REDIRECT_URL)
