"""Where the broker listens and what protects it there, from Django's settings: access control and TLS."""

from __future__ import annotations

import ipaddress
import logging

from django.conf import settings

from .remoting.access.config import AccessConfig
from .remoting.access.errors import InvalidAccess
from .remoting.access.users import User, check_name
from .remoting.clock import Simulation
from .remoting.tls import TlsConfig

logger = logging.getLogger(__name__)


class HostingRefused(Exception):
    """The worker cannot host this; the message says why and what to do."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refuse_open_listening() -> None:
    """Raise HostingRefused if others could reach the broker and nothing would keep them from anything, or all that
    goes to it could be heard, changed and said again on its way."""
    host, told = settings.BROKER_HOST, settings.BROKER_ADVERTISE
    if not is_loopback(host) and not settings.BROKER_ACCESS:
        raise HostingRefused(
            f"The broker would listen on {host} without access control: anyone who reaches it could read and write"
            " every message. Set ESCAPEMENT_ACCESS=1, or ESCAPEMENT_BROKER_HOST to a loopback address."
        )
    if told in ("0.0.0.0", "::"):  # noqa: S104 - it is refused
        raise HostingRefused(
            f"Clients cannot connect to {told}: set ESCAPEMENT_BROKER_ADVERTISE to the address that they are to use."
        )
    if is_loopback(host) or settings.BROKER_TLS is not None:
        return
    heard = (
        f"The broker would listen on {host} without TLS: what is sent could be read on its way, and what is signed said"
        " again at any time, also as another kind of request, because RocketMQ's signature covers fields and body, but"
        " neither the request's code nor the moment."
    )
    if not settings.PLAINTEXT:
        raise HostingRefused(
            f"{heard} Set ESCAPEMENT_TLS_CERT and ESCAPEMENT_TLS_KEY, or, on a network of which you are sure,"
            " ESCAPEMENT_PLAINTEXT=1."
        )
    logger.warning("%s ESCAPEMENT_PLAINTEXT=1 allows it.", heard)


def simulation() -> Simulation | None:
    """How the broker's clock is simulated, if it is; raises HostingRefused."""
    if not settings.SIMULATED_CLOCK:
        return None
    if not is_loopback(settings.BROKER_HOST):
        raise HostingRefused(
            f"A simulated clock is for demonstrations on one machine, and the broker would listen on"
            f" {settings.BROKER_HOST}: set ESCAPEMENT_BROKER_HOST to a loopback address, or leave"
            " ESCAPEMENT_SIMULATED_CLOCK out."
        )
    try:
        return Simulation.read(settings.SIMULATED_CLOCK)
    except ValueError as error:
        raise HostingRefused(f"ESCAPEMENT_SIMULATED_CLOCK: {error}.") from None


def access_config() -> AccessConfig | None:
    """The broker's own user and what strangers may ask, if there is access control; raises HostingRefused."""
    if not settings.BROKER_ACCESS:
        return None
    try:
        check_name(settings.ACCESS_KEY)
    except InvalidAccess as error:
        raise HostingRefused(f"ESCAPEMENT_ACCESS_KEY: {error}") from None
    inner = User(settings.ACCESS_KEY, settings.ACCESS_SECRET, is_super=True)
    return AccessConfig(inner, settings.BROKER_OPEN_ROUTES)


def tls_config() -> TlsConfig | None:
    """The certificates to show, if there are any."""
    files = settings.BROKER_TLS
    return None if files is None else TlsConfig(**files)
