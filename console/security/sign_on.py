"""Signing in by an OpenID Connect provider: off unless its settings are given (docs/CONSOLE.md).

Authlib speaks to it: discovery, authorization code with PKCE, checked id token. The provider decides at each signing in
which groups a user has: those that he is no longer in there are gone here, too.

The pages are the way to the provider and back, and what is told after too many wrong passwords.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Any, cast

from authlib.common.errors import AuthlibBaseError
from authlib.integrations.django_client import OAuth
from django.conf import settings
from django.contrib.auth import get_user_model, login
from django.contrib.auth.models import Group
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from joserfc.errors import JoseError
from requests import RequestException

from console.security.gate import ADMINISTRATOR
from console.security.models import SUBJECT_LENGTH, Identity

logger = logging.getLogger(__name__)

TIMEOUT_S = 10
DISCOVERY = "/.well-known/openid-configuration"

_NAME_LENGTH = 150
_NEXT = "sign_on_next"
_BACKEND = "django.contrib.auth.backends.ModelBackend"
_NAMES = ("preferred_username", "email", "name", "sub")


class SignOnFailed(Exception):
    """The provider did not say who the user is; the text is for the log, and may hold what a stranger sent."""


class ProviderDown(SignOnFailed):
    """The provider does not answer, or not as a provider does."""


class NotMeant(Exception):
    """The user is known to the provider, but has no group with a place here, or a closed account."""


def is_on() -> bool:
    """Tell whether a provider is configured."""
    return bool(settings.OIDC_ISSUER)


def label() -> str:
    """Return the provider's name for the button; empty without a provider."""
    return str(settings.OIDC_NAME) if is_on() else ""


def to_provider(request: HttpRequest, back: str, *, is_again: bool = False) -> HttpResponse:
    """Send the browser to the provider; it comes back to ``back``. `is_again`: the provider shall ask who it is even
    if it knows. Raises ProviderDown."""
    asked = {"prompt": "login"} if is_again else {}
    try:
        return cast(HttpResponse, _client().authorize_redirect(request, back, **asked))
    except (AuthlibBaseError, RequestException, RuntimeError, ValueError, KeyError) as error:
        raise ProviderDown(str(error)) from error


def claims_of(request: HttpRequest) -> dict[str, Any]:
    """Return the claims of the checked id token, with groups from the user's information if the token has none.

    Raises SignOnFailed.
    """
    try:
        client = _client()
        token = client.authorize_access_token(request)
        claims = dict(token.get("userinfo") or {})
        if not claims.get("sub") or claims.get("iss") != settings.OIDC_ISSUER:
            raise SignOnFailed("there is no id token of this provider")
        if settings.OIDC_GROUPS_CLAIM not in claims and client.load_server_metadata().get("userinfo_endpoint"):
            told = dict(client.userinfo(token=token))
            if told.get("sub") != claims["sub"]:
                raise SignOnFailed("the user's information is of somebody else")
            claims = {**told, **claims}
        return claims
    except (AuthlibBaseError, JoseError) as error:
        raise SignOnFailed(str(error)) from error
    except (RequestException, RuntimeError, ValueError, KeyError) as error:
        raise ProviderDown(str(error)) from error


def _client() -> Any:
    return _made(settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET, settings.OIDC_SCOPES)


@lru_cache(maxsize=4)
def _made(issuer: str, client_id: str, secret: str, scopes: str) -> Any:
    """Make one client a provider, which remembers the provider's metadata and asks for its keys again when they
    change."""
    kwargs = {"scope": scopes, "code_challenge_method": "S256", "default_timeout": TIMEOUT_S}
    return OAuth().register(
        "provider",
        client_id=client_id,
        client_secret=secret,
        server_metadata_url=issuer.rstrip("/") + DISCOVERY,
        client_kwargs=kwargs,
    )


def user_of(claims: Mapping[str, Any]) -> Any:
    """Return the user, created the first time. An account with a password and the same name is somebody else.

    Raises NotMeant.
    """
    subject = str(claims["sub"])
    groups = _groups(claims)
    if not groups or len(subject) > SUBJECT_LENGTH:
        raise NotMeant
    with transaction.atomic():
        known = Identity.objects.select_related("user").filter(issuer=settings.OIDC_ISSUER, subject=subject).first()
        user = known.user if known is not None else _new(claims, subject)
        if not user.is_active:
            raise NotMeant
        user.groups.set(groups)
        user.is_staff = any(group.name == ADMINISTRATOR for group in groups)
        user.save(update_fields=["is_staff"])
    return user


def _groups(claims: Mapping[str, Any]) -> list[Group]:
    """Return our groups for the provider's groups of the user; anything but a list of names gives none."""
    said = claims.get(settings.OIDC_GROUPS_CLAIM)
    theirs = said if isinstance(said, list) else [said]
    ours = {settings.OIDC_GROUPS[name] for name in theirs if isinstance(name, str) and name in settings.OIDC_GROUPS}
    return list(Group.objects.filter(name__in=ours))


def _new(claims: Mapping[str, Any], subject: str) -> Any:
    users = get_user_model().objects
    said = (claims.get(name) for name in _NAMES)
    wanted = next(name for name in said if isinstance(name, str) and name.strip() and name.isprintable())
    wanted = " ".join(wanted.split())[: _NAME_LENGTH - 10]
    name, number = wanted, 1
    while users.filter(username__iexact=name).exists():
        number += 1
        name = f"{wanted}-{number}"
    user = users.create_user(name)  # without a password: none is right
    Identity.objects.create(issuer=settings.OIDC_ISSUER, subject=subject, user=user)
    return user


@require_safe
@never_cache
def leave(request: HttpRequest) -> HttpResponse:
    """Send the browser to the provider, and remember the page that was wanted."""
    if not is_on():
        raise Http404
    request.session[_NEXT] = request.GET.get("next", "")
    try:
        is_again = request.GET.get("again") == "1"
        return to_provider(request, request.build_absolute_uri(reverse("sign_on_back")), is_again=is_again)
    except ProviderDown as error:
        return _refused(request, "down", error)


@require_safe
@never_cache
def back(request: HttpRequest) -> HttpResponse:
    """Sign in the user who comes back from the provider, or say why not."""
    if not is_on():
        raise Http404
    wanted = request.session.pop(_NEXT, "")
    try:
        user = user_of(claims_of(request))
    except ProviderDown as error:
        return _refused(request, "down", error)
    except SignOnFailed as error:
        return _refused(request, "failed", error)
    except NotMeant as error:
        return _refused(request, "not_meant", error)
    login(request, user, backend=_BACKEND)
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
