"""Signing in by an OpenID Connect provider: off unless its settings are given (docs/CONSOLE.md).

How it is spoken to stands in provider.py. The provider decides at each signing in
which groups a user has: those that he is no longer in there are gone here, too.

The pages are the way to the provider and back, and what is told after too many wrong passwords.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.contrib.auth import login
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from console.security import owed

logger = logging.getLogger(__name__)

_NEXT = "sign_on_next"
_BACKEND = "django.contrib.auth.backends.ModelBackend"


def is_on() -> bool:
    """Tell whether a provider is configured."""
    return bool(settings.OIDC_ISSUER)


def label() -> str:
    """Return the provider's name for the button; empty without a provider."""
    return str(settings.OIDC_NAME) if is_on() else ""


@require_safe
@never_cache
def leave(request: HttpRequest) -> HttpResponse:
    """Send the browser to the provider, and remember the page that was wanted."""
    if not is_on():
        raise Http404
    from console.security import provider

    request.session[_NEXT] = request.GET.get("next", "")
    try:
        is_again = request.GET.get("again") == "1"
        back = request.build_absolute_uri(reverse("sign_on_back"))
        return provider.to_provider(request, back, is_again=is_again)
    except provider.ProviderDown as error:
        return _refused(request, "down", error)


@require_safe
@never_cache
def back(request: HttpRequest) -> HttpResponse:
    """Sign in the user who comes back from the provider, or say why not."""
    if not is_on():
        raise Http404
    from console.security import provider

    wanted = request.session.pop(_NEXT, "")
    try:
        user = provider.user_of(provider.claims_of(request))
    except provider.ProviderDown as error:
        return _refused(request, "down", error)
    except provider.SignOnFailed as error:
        return _refused(request, "failed", error)
    except provider.NotMeant as error:
        return _refused(request, "not_meant", error)
    login(request, user, backend=_BACKEND)
    owed.note_step(request, owed.PROVIDER)
    is_ours = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return redirect(wanted if is_ours else settings.LOGIN_REDIRECT_URL)


def locked(request: HttpRequest, original_response: HttpResponse | None, credentials: Any) -> HttpResponse:
    """Return the page for a locked login; Retry-After says when to try again, as each try in between begins anew."""
    page = render(request, "registration/locked.html", status=HTTPStatus.TOO_MANY_REQUESTS)
    page["Retry-After"] = str(int(settings.AXES_COOLOFF_TIME.total_seconds()))
    return page


def address_of(request: HttpRequest) -> str:
    """Return the address of the connection, as uvicorn knows it from trusted proxies; headers are not read."""
    return str(request.META.get("REMOTE_ADDR", ""))


def _refused(request: HttpRequest, why: str, error: Exception) -> HttpResponse:
    logger.warning("signing in by the provider: %s: %.300r", why, str(error))
    status = 502 if why == "down" else 403
    return render(request, "registration/not_signed_on.html", {"why": why, "provider": label()}, status=status)
