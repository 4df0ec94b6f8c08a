"""A client's identity to brokers and name servers, and its way of speaking with them: RocketMQ's signatures, and TLS.

Every producer, consumer and admin takes these as keyword arguments:

| argument                   |                                                                              |
|----------------------------|------------------------------------------------------------------------------|
| `access_key`, `secret_key` | the user and its secret: each request is signed                              |
| `security_token`           | a third part that some vendors' brokers ask for                              |
| `tls`                      | True: TLS, certificates checked with the system's authorities; or a `Tls`    |

What is not given is looked up by name server address among what `remember` was told: a project says it once.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypedDict

from ..rocketmq.acl import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, sign, signed_fields
from ..rocketmq.codes import PROTOCOL_VERSION
from ..rocketmq.frame import encode_fields
from .errors import InvalidArgument

__all__ = ["Access", "Security", "Signer", "Tls", "remember"]


@dataclass(frozen=True, slots=True)
class Tls:
    """The means by which a client knows the other end of a TLS connection.

    `ca_file`: the authorities in it are trusted instead of the system's. `server_name`: the name that certificates must
    hold; by default the host that is connected to. `verify=False` trusts anybody, so nothing is secret from who sits in
    between. `cert_file` and `key_file`: the client's own certificate, for brokers that want one.
    """

    ca_file: str | None = None
    server_name: str | None = None
    verify: bool = True
    cert_file: str | None = None
    key_file: str | None = None


class Access(TypedDict, total=False):
    """Keyword arguments that every client takes."""

    access_key: str | None
    secret_key: str | None
    security_token: str | None
    tls: Tls | bool


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs requests in the name of a user."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def sign(self, ext: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Return the header fields with user and signature added."""
        return signed_fields(
            ext, body, version=PROTOCOL_VERSION, access_key=self.access_key, secret_key=self.secret_key,
            security_token=self.security_token,
        )  # fmt: skip

    def sign_encoded(self, fields: bytes, body: bytes) -> bytes:
        """Sign header fields in their binary form, as `sign` does; return them with user and signature added."""
        own = self._own_fields()
        values = {**_decoded(fields), **{name.encode(): value.encode() for name, value in own.items()}}
        signature = sign(self._secret(), b"".join([values[name] for name in sorted(values)]) + body)
        return fields + encode_fields({**own, SIGNATURE: signature.decode()})

    def _own_fields(self) -> dict[str, str]:
        token = self.security_token
        return {ACCESS_KEY: self.access_key} | ({} if token is None else {SECURITY_TOKEN: token})

    def _secret(self) -> bytes:
        return self.secret_key.encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class Security:
    """The signature and the TLS of one client's connections."""

    signer: Signer | None = None
    tls: Tls | None = None

    def of_host(self, host: str) -> tuple[ssl.SSLContext | None, str | None]:
        """Return the context and expected name for a connection to a host; None and None for none."""
        if self.tls is None:
            return None, None
        return _context(self.tls), self.tls.server_name or host


_remembered: dict[str, Security] = {}


def remember(namesrv: str, access: Access) -> None:
    """Have clients of this name server (written exactly so) that are given nothing use this from now on."""
    _remembered[namesrv] = _security(access)


def security_of(namesrv: str, access: Access) -> Security:
    """Return what the arguments of a client say, or else what was remembered; raises InvalidArgument."""
    return _security(access) if access else _remembered.get(namesrv, Security())


def _security(access: Access) -> Security:
    name, secret = access.get("access_key"), access.get("secret_key")
    if bool(name) != bool(secret):
        raise InvalidArgument("access_key and secret_key come together: one of them is missing.", field="access_key")
    tls = access.get("tls", False)
    return Security(
        Signer(name, secret, access.get("security_token")) if name and secret else None,
        Tls() if tls is True else tls or None,
    )


@lru_cache(maxsize=64)
def _context(tls: Tls) -> ssl.SSLContext:
    """Make the TLS context; raises InvalidArgument when a file cannot be read."""
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
        if not tls.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if tls.cert_file is not None:
            context.load_cert_chain(tls.cert_file, tls.key_file)
    except OSError as error:
        raise InvalidArgument(f"A certificate cannot be read: {error}", field="tls") from None
    return context


def _decoded(fields: bytes) -> dict[bytes, bytes]:
    """Return names and values of fields that this client has encoded itself."""
    values: dict[bytes, bytes] = {}
    position = 0
    while position < len(fields):
        name_end = position + 2 + int.from_bytes(fields[position : position + 2], "big")
        value_end = name_end + 4 + int.from_bytes(fields[name_end : name_end + 4], "big")
        values[fields[position + 2 : name_end]] = fields[name_end + 4 : value_end]
        position = value_end
    return values
