"""What the OpenID Connect provider says, and who that is here. Authlib speaks to it: discovery, authorization code with
PKCE, checked id token.

Loaded only when somebody signs in by it: Authlib takes 17 MB, and most processes never speak with a provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from authlib.common.errors import AuthlibBaseError
from authlib.integrations.django_client import OAuth
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from joserfc.errors import JoseError
from requests import RequestException

from console.security.models import SUBJECT_LENGTH, Identity
from console.security.own_role import take_roles

TIMEOUT_S = 10
DISCOVERY = "/.well-known/openid-configuration"

_NAME_LENGTH = 150
_NAMES = ("preferred_username", "email", "name", "sub")


class SignOnFailed(Exception):
    """The provider did not say who the user is; the text is for the log, and may hold what a stranger sent."""


class ProviderDown(SignOnFailed):
    """The provider does not answer, or not as a provider does."""


class NotMeant(Exception):
    """The user is known to the provider, but has no group with a place here, or a closed account."""


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
        # the provider says which roles; the topics that one user is limited to were set here
        take_roles(user, groups)
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
