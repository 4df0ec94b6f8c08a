"""Whether the person who signed in is still the one who sits there.

A session ends after a time without a request. Before what destroys something, and before anything is changed in
`/admin/`, the password is asked for again, unless it was given a short while ago; who signed in by a provider goes
there once more. What stands in the session: when it was used last (to the minute), when its person proved it, and what
had been typed into a form that could not go on without: the console's own forms are shown with it again, those of
`/admin/` are sent once more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth import authenticate, logout
from django.contrib.auth.signals import user_logged_in
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

_SEEN_S, _PROVED_S, _TYPED, _SENT = "seen_s", "proved_s", "typed", "sent"
#: how exactly it is kept when a session was used last: each time it is written costs a statement
_STEP_S = 60
_SEE_OTHER = 303
#: how long a form waits for its person, and how long one of its fields may be
_TYPED_LASTS_S = 900
_TYPED_LENGTH = 1_000
#: how long all fields of a form of `/admin/` may be, with their names, to be kept
_SENT_LENGTH = 65_536


class Presence:
    """Middleware that stands behind the gate and ends sessions that nobody used for too long."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer as a stranger's what comes too late."""
        if request.user.is_authenticated:
            now_s = int(time.time())
            if is_idle(request.session, now_s):
                logout(request)
            elif now_s - int(request.session.get(_SEEN_S, 0)) >= _STEP_S:
                request.session[_SEEN_S] = now_s
        return self.get_response(request)


def is_idle(session: Mapping[str, Any], now_s: float) -> bool:
    """Tell whether a session was not used for too long; one that never says when it was used is not."""
    seen_s, longest_s = session.get(_SEEN_S), settings.IDLE_MINUTES * 60
    return bool(longest_s) and seen_s is not None and now_s - seen_s > longest_s + _STEP_S


def connect() -> None:
    """Begin to listen to sign-ins; twice is once."""
    user_logged_in.connect(_signed_in, dispatch_uid="console.presence")


def _signed_in(sender: Any, request: HttpRequest, **kwargs: Any) -> None:
    request.session[_SEEN_S] = request.session[_PROVED_S] = int(time.time())


def is_proved(request: HttpRequest) -> bool:
    """Tell whether the person has proved lately who that is, or need not."""
    if not settings.PROOF_MINUTES:
        return True
    return time.time() - request.session.get(_PROVED_S, 0) <= settings.PROOF_MINUTES * 60


def ask(request: HttpRequest, back: str, typed: Mapping[str, str] | None = None) -> HttpResponse:
    """Lead to the page that asks for the password, and from there to this address, where `typed` (by field) is found.

    It waits in the session: an address would be kept by the browser's history and by the logs of proxies.
    """
    if typed:
        fields = {name: text[:_TYPED_LENGTH] for name, text in typed.items()}
        request.session[_TYPED] = {"for": back, "at_s": int(time.time()), "fields": fields}
    answer = HttpResponseRedirect(f"{reverse('prove')}?{urlencode({'next': back})}")
    answer.status_code = _SEE_OTHER
    return answer


def take_typed(request: HttpRequest) -> dict[str, str]:
    """Return what was typed into the form of this address before the password was asked for, once it was given.

    It is told once. Without one it stays: who looks at the page and then gives the password still finds it.
    """
    found = request.session.get(_TYPED)
    if not isinstance(found, dict) or found.get("for") != request.path or not is_proved(request):
        return {}
    del request.session[_TYPED]
    return dict(found["fields"]) if time.time() - found["at_s"] <= _TYPED_LASTS_S else {}


def ask_for(request: HttpRequest) -> HttpResponse:
    """Lead to the page that asks for the password, and from there to `send_again`, where the request can be sent again.

    Passwords are not kept, and nothing of a form that is too long: it begins anew.
    """
    fields = [
        (name, value)
        for name, values in request.POST.lists()
        for value in values
        if name != "csrfmiddlewaretoken" and "password" not in name.lower()
    ]
    back = request.get_full_path()
    if sum(len(name) + len(value) for name, value in fields) > _SENT_LENGTH:
        return ask(request, back)
    request.session[_SENT] = {"for": back, "at_s": int(time.time()), "fields": fields}
    return ask(request, reverse("send_again"))


@require_safe
@never_cache
def send_again(request: HttpRequest) -> HttpResponse:
    """Show the button that sends what was kept, once: the request that asked for the password changed nothing."""
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    if not is_proved(request):
        return ask(request, request.path)
    found = request.session.pop(_SENT, None)
    if not isinstance(found, dict) or time.time() - found["at_s"] > _TYPED_LASTS_S:
        return HttpResponseRedirect(settings.LOGIN_REDIRECT_URL)
    return render(request, "registration/send_again.html", {"address": found["for"], "fields": found["fields"]})


@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def prove(request: HttpRequest) -> HttpResponse:
    """Ask for the password of who is signed in, and go on where it was asked for."""
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    given = request.POST.get("next") or request.GET.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(given, {request.get_host()}, require_https=request.is_secure())
    back = given if is_ours else settings.LOGIN_REDIRECT_URL
    user: Any = request.user
    is_wrong = False
    if request.method == "POST":
        found = authenticate(request, username=user.get_username(), password=request.POST.get("password", ""))
        if found is not None and found.pk == user.pk:
            request.session[_PROVED_S] = int(time.time())
            answer = HttpResponseRedirect(back)
            answer.status_code = _SEE_OTHER
            return answer
        is_wrong = True
    shown = {"next": back, "is_wrong": is_wrong, "has_password": user.has_usable_password()}
    return render(request, "registration/prove.html", shown, status=422 if is_wrong else 200)
