"""The provider's settings, checked before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

#: as console.security.roles has them, which cannot be read before there are settings
_ROLES = ("viewer", "operator", "administrator")
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def groups_of(text: str) -> Mapping[str, str]:
    """Read "theirs=ours, theirs=ours"; an empty text maps the three roles to themselves."""
    if not text.strip():
        return {name: name for name in _ROLES}
    pairs = [each.rpartition("=") for each in text.split(",") if each.strip()]
    if not all(theirs.strip() and ours.strip() for theirs, _, ours in pairs):
        raise ImproperlyConfigured(
            f"ESCAPEMENT_OIDC_GROUPS is {text!r}: write group=role for each, such as ops=operator,dev=viewer."
        )
    return {theirs.strip(): ours.strip() for theirs, _, ours in pairs}


def check_provider(issuer: str, client_id: str) -> None:
    """Raise ImproperlyConfigured for an issuer without TLS, or one without our client id."""
    if not issuer:
        return
    parts = urlsplit(issuer)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise ImproperlyConfigured(f"ESCAPEMENT_OIDC_ISSUER is {issuer!r}: it has to begin with https://.")
    if not client_id:
        raise ImproperlyConfigured("ESCAPEMENT_OIDC_ISSUER is set, ESCAPEMENT_OIDC_CLIENT_ID is not: set both.")
