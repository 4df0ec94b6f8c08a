"""Celery workers that host the broker, name services, the mirror and the transfer of Redisson queues (worker.py).

Here is what Django's settings say of the broker: where it listens and what protects it there, access control and TLS,
where it registers, and how its clock is simulated.
"""

from __future__ import annotations

from django.conf import settings

from ..client.credentials import security_of
from ..rocketmq.acl import AccessConfig, InvalidAccess, User, check_name
from ..server.clock import Simulation
from ..server.clock import wall_clock_ms as wall_clock_ms
from ..server.listener import Listening, ListeningRefused, Remedies, refuse_exposed
from ..server.listener import is_loopback as is_loopback
from ..server.registrar import NameServers
from ..server.tls import Certificates as Certificates
from ..server.tls import TlsConfig as TlsConfig


class HostingRefused(Exception):
    """The worker cannot host this; the message says why and what to do."""


REMEDIES = Remedies(
    access="Set ESCAPEMENT_ACCESS=1",
    host="ESCAPEMENT_BROKER_HOST",
    advertise="set ESCAPEMENT_BROKER_ADVERTISE",
    tls="Set ESCAPEMENT_TLS_CERT and ESCAPEMENT_TLS_KEY",
)


def refuse_open_listening() -> None:
    """Raise HostingRefused if others could reach the broker and nothing would keep them from anything, or all that
    goes to it could be heard, changed and said again on its way."""
    listening = Listening(
        settings.BROKER_HOST,
        settings.BROKER_ADVERTISE,
        has_access=settings.BROKER_ACCESS,
        has_tls=settings.BROKER_TLS is not None,
        is_plaintext_allowed=settings.PLAINTEXT,
    )
    try:
        refuse_exposed(listening, REMEDIES)
    except ListeningRefused as refusal:
        raise HostingRefused(str(refusal)) from None


def simulation() -> Simulation | None:
    """Return how the broker's clock is simulated, None if it is not; raises HostingRefused."""
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
    """Return the broker's own user and what strangers may ask, None without access control; raises HostingRefused."""
    if not settings.BROKER_ACCESS:
        return None
    try:
        check_name(settings.ACCESS_KEY)
    except InvalidAccess as error:
        raise HostingRefused(f"ESCAPEMENT_ACCESS_KEY: {error}") from None
    inner = User(settings.ACCESS_KEY, settings.ACCESS_SECRET, is_super=True)
    return AccessConfig(inner, settings.BROKER_OPEN_ROUTES)


def name_servers() -> NameServers:
    """Return where the broker registers, signed and over TLS as this project's own clients speak; raises
    HostingRefused."""
    security = security_of("", settings.ESCAPEMENT_CLIENT)
    try:
        return NameServers(
            NameServers.parsed(settings.BROKER_REGISTER_AT),
            None if security.signer is None else security.signer.sign,
            security.of_host,
        )
    except ValueError as error:
        raise HostingRefused(f"ESCAPEMENT_REGISTER_AT: {error}.") from None


def tls_config() -> TlsConfig | None:
    """Return the certificates to show, None if there are none."""
    files = settings.BROKER_TLS
    return None if files is None else TlsConfig(**files)
