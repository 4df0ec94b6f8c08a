"""Where a broker may listen: what others can reach needs access control, and TLS unless the network is answered for."""

from __future__ import annotations

import ipaddress
import logging
from dataclasses import dataclass

logger = logging.getLogger(__name__)


class ListeningRefused(Exception):
    """The broker must not listen there; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Remedies:
    """What to set or to change, in words of whoever starts the broker."""

    access: str
    host: str
    advertise: str
    tls: str
    plaintext: str = "ESCAPEMENT_PLAINTEXT=1"


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a broker is to listen, what clients are told, and what protects it."""

    host: str
    told: str
    has_access: bool
    has_tls: bool
    is_plaintext_allowed: bool


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches the address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refuse_exposed(listening: Listening, remedies: Remedies) -> None:
    """Raise ListeningRefused if others could reach the broker and nothing would keep them from anything, or all that
    goes to it could be heard, changed and said again on its way."""
    host = listening.host
    if not is_loopback(host) and not listening.has_access:
        raise ListeningRefused(
            f"The broker would listen on {host} without access control: anyone who reaches it could read and write"
            f" every message. {remedies.access}, or {remedies.host} to a loopback address."
        )
    if listening.told in ("", "0.0.0.0", "::"):  # noqa: S104 - it is refused
        raise ListeningRefused(
            f"Clients cannot connect to {listening.told or 'an empty address'}: {remedies.advertise} to the address"
            " that they are to use."
        )
    if is_loopback(host) or listening.has_tls:
        return
    heard = (
        f"The broker would listen on {host} without TLS: what is sent could be read on its way, and what is signed said"
        " again at any time, also as another kind of request, because RocketMQ's signature covers fields and body, but"
        " neither the request's code nor the moment."
    )
    if not listening.is_plaintext_allowed:
        raise ListeningRefused(f"{heard} {remedies.tls}, or, on a network of which you are sure, {remedies.plaintext}.")
    logger.warning("%s %s allows it.", heard, remedies.plaintext)
