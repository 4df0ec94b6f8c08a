"""How many wrong passwords are taken: of a name from one address, of a name from anywhere, and from one address.

Whoever has tried too often is refused before a password is looked at (django-axes asks here). A name that strangers
have locked from everywhere stays open where its owner signed in before. From loopback addresses only the first limit
and the second count: a proxy that nobody has named would have everybody come from there.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from axes.handlers.database import AxesDatabaseHandler
from axes.helpers import get_client_username
from axes.models import AccessAttempt, AccessLog
from django.conf import settings
from django.db.models import QuerySet, Sum
from django.http import HttpRequest
from django.utils import timezone


class Tries(AxesDatabaseHandler):
    """The wrong passwords that are kept in the database; those of a quarter of an hour count."""

    def get_failures(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        """Return the wrong passwords of this name from this address; the whole limit where one of the others is
        reached."""
        pair = int(super().get_failures(request, credentials))
        limit = int(settings.AXES_FAILURE_LIMIT)
        if pair >= limit:
            return pair
        name, address = get_client_username(request, credentials), getattr(request, "axes_ip_address", None)
        lately = AccessAttempt.objects.filter(attempt_time__gt=timezone.now() - settings.AXES_COOLOFF_TIME)
        if not _is_loopback(address) and _sum(lately.filter(ip_address=address)) >= settings.LOGIN_TRIES_ADDRESS:
            return limit
        if _sum(lately.filter(username=name)) >= settings.LOGIN_TRIES_ACCOUNT and not _is_known(name, address):
            return limit
        return pair


def _sum(attempts: QuerySet[Any]) -> int:
    return int(attempts.aggregate(total=Sum("failures_since_start"))["total"] or 0)


def _is_known(name: str | None, address: str | None) -> bool:
    """Tell whether somebody has signed in by this name from there."""
    return AccessLog.objects.filter(username=name, ip_address=address).exists()


def _is_loopback(address: str | None) -> bool:
    try:
        return ipaddress.ip_address(address or "").is_loopback
    except ValueError:
        return False
