"""The OpenID Connect provider, by Authlib: discovery, authorization code with PKCE, checked id token.

Loaded only when somebody signs in by it: Authlib takes 17 MB, and most processes never speak with a provider.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

from authlib.common.errors import AuthlibBaseError
from authlib.integrations.django_client import OAuth
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from joserfc.errors import JoseError
from requests import RequestException

TIMEOUT_S = 10
DISCOVERY = "/.well-known/openid-configuration"


class SignOnFailed(Exception):
    """The provider did not say who the user is; the text is for the log, and may hold what a stranger sent."""


class ProviderDown(SignOnFailed):
    """The provider does not answer, or not as a provider does."""


def to_provider(request: HttpRequest, back: str) -> HttpResponse:
    """Send the browser to the provider; it comes back to ``back``. Raises ProviderDown."""
    try:
        return cast(HttpResponse, _client().authorize_redirect(request, back))
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
