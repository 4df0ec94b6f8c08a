"""Asking the broker for contents: one client for the process, and its errors as evidence instead of a broken page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.conf import settings

from broker.client import (
    Admin,
    BrokerUnreachable,
    ClientError,
    InvalidArgument,
    NotSupported,
    RouteNotFound,
    Timeout,
)
from console.site.clock import now_ms
from console.site.evidence import Evidence, StaleReason
from console.site.kept_clients import KeptClients

Answer = TypeVar("Answer")

_admins = KeptClients(Admin)


def admin() -> Admin:
    """Return the client for ESCAPEMENT_NAMESRV; it is safe for threads."""
    return _admins.at(settings.ESCAPEMENT_NAMESRV)


def hang_up() -> None:
    """Close the connections; the next question opens new ones."""
    _admins.hang_up()


def ask(
    question: Callable[[Admin], Answer], *, source: str, requests: tuple[int, ...], exact: bool = True
) -> tuple[Answer | None, Evidence]:
    """Return the answer with its evidence; None with the reason if the broker is away, slow or refuses."""
    try:
        answer = question(admin())
    except ClientError as error:
        return None, Evidence(source or "broker", None, exact, _reason(error), requests, str(error))
    return answer, Evidence(source or "broker", now_ms(), exact, None, requests)


def _reason(error: ClientError) -> StaleReason:
    if isinstance(error, Timeout):
        return StaleReason.BROKER_SLOW
    if isinstance(error, BrokerUnreachable):
        return StaleReason.BROKER_UNREACHABLE
    if isinstance(error, NotSupported):
        return StaleReason.NOT_SUPPORTED
    if isinstance(error, (RouteNotFound, InvalidArgument)):
        return StaleReason.NOT_THERE
    return StaleReason.BROKER_REFUSED
