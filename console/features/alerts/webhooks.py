"""Which addresses webhooks of rules may have, and how an address is shown to who may not have it."""

from __future__ import annotations

from django.conf import settings

from console.features.checkback.allowed import AddressRefused, AllowList, read_address


def allow_list() -> AllowList:
    """Return the origins that the settings allow. Raises AddressRefused for one that cannot be read."""
    return AllowList(settings.ALERT_ORIGINS, settings.CHECKBACK_NETWORKS, listed_in="ESCAPEMENT_ALERT_ORIGINS")


def check_webhook(text: str) -> None:
    """Raise AddressRefused unless it can be read and its origin is listed, and leads nowhere special if it is an IP
    address. Where a name leads is looked at each time before it is asked."""
    address, allowed = read_address(text), allow_list()
    allowed.check_origin(address)
    if address.origin.literal is not None:
        allowed.check_resolved([address.origin.literal])


def without_path(text: str) -> str:
    """Return the origin of an address with an ellipsis, as its path may be a secret."""
    if not text:
        return ""
    try:
        return f"{read_address(text).origin}/…"
    except AddressRefused:
        return "…"
