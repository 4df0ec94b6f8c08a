"""Settings that are checked before anything starts.

Where the web process listens, who may stand in front of it, and which provider signs people in.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from broker.hosting import is_loopback


class ServingRefused(Exception):
    """The web process does not start; the message says why and what to do."""


def trusted_proxies(text: str) -> tuple[str, ...]:
    """Read addresses and networks from a list with commas. Raises ImproperlyConfigured for anything else, `*` among
    it."""
    named = tuple(each.strip() for each in text.split(",") if each.strip())
    for each in named:
        try:
            ipaddress.ip_network(each)
        except ValueError as error:
            raise ImproperlyConfigured(
                f"ESCAPEMENT_TRUSTED_PROXIES is {text!r}: {error}. Name addresses or networks of your reverse proxies,"
                " such as 127.0.0.1,10.1.0.0/24; what any other address says of itself is not believed."
            ) from None
    return named


def refuse_open_serving(settings: Any) -> None:
    """Raise ServingRefused where passwords, sessions and tokens would go over a network in the clear, where Django's
    debug pages could be reached by others, and where HTTPS could never be seen to be there."""
    host = settings.WEB_HOST
    if settings.DEBUG and not is_loopback(host):
        raise ServingRefused(
            f"The console would listen on {host} with ESCAPEMENT_DEBUG=1: its error pages tell everybody about the"
            " machine. Omit it, or set ESCAPEMENT_WEB_HOST to a loopback address."
        )
    if not is_loopback(host) and not settings.HTTPS and not settings.PLAINTEXT:
        raise ServingRefused(
            f"The console and REST would listen on {host} in plain HTTP: passwords, sessions and tokens could be read"
            " on their way. Set ESCAPEMENT_WEB_TLS_CERT and ESCAPEMENT_WEB_TLS_KEY, or put a reverse proxy with TLS in"
            " front and set ESCAPEMENT_HTTPS=1 and ESCAPEMENT_TRUSTED_PROXIES, or set ESCAPEMENT_WEB_HOST to a loopback"
            " address, or, on a network of which you are sure, ESCAPEMENT_PLAINTEXT=1."
        )
    if settings.WEB_REDIRECT_PORT and settings.WEB_TLS is None:
        raise ServingRefused(
            f"ESCAPEMENT_WEB_REDIRECT_PORT={settings.WEB_REDIRECT_PORT} is to lead to HTTPS, and the console has none"
            " of its own: set ESCAPEMENT_WEB_TLS_CERT and ESCAPEMENT_WEB_TLS_KEY, or omit it."
        )
    if settings.HTTPS and settings.WEB_TLS is None and not settings.TRUSTED_PROXIES:
        raise ServingRefused(
            "ESCAPEMENT_HTTPS=1 says that a reverse proxy with TLS stands in front, and nobody is believed to be one:"
            " every page would be redirected to itself. Set ESCAPEMENT_TRUSTED_PROXIES to its address"
            " (127.0.0.1 where it is on this machine); it has to send X-Forwarded-For and X-Forwarded-Proto."
        )


def uncounted(proxies: Iterable[str]) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """Return the networks from which many people may come by one address."""
    return tuple(ipaddress.ip_network(each) for each in proxies)


#: as console.security.gate has them, which cannot be read before there are settings
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
