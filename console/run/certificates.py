"""What the environment says about TLS and signatures: of the broker, and of this project's own clients.

| Variable                                             | Whose                                                   |
|------------------------------------------------------|---------------------------------------------------------|
| ESCAPEMENT_TLS_CERT, ESCAPEMENT_TLS_KEY              | the broker's certificate chain and key                  |
| ESCAPEMENT_TLS_CLIENT_CA                             | the broker asks clients for a certificate of these      |
| ESCAPEMENT_TLS                                       | `permissive` (default), `enforcing`: no plain clients   |
| ESCAPEMENT_NAMESRV_TLS, ESCAPEMENT_TLS_CA,           | our own clients: whether they speak TLS, whom they      |
| ESCAPEMENT_TLS_NAME                                  | trust, which name they expect                           |
| ESCAPEMENT_TLS_CLIENT_CERT, ESCAPEMENT_TLS_CLIENT_KEY| our own clients: their certificate                      |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.client import Access, Tls

MODES = ("permissive", "enforcing")


def server_certificates(environment: Mapping[str, str]) -> dict[str, Any] | None:
    """Arguments of TlsConfig; None without a certificate. Raises ValueError for what contradicts itself."""
    mode = environment.get("ESCAPEMENT_TLS") or MODES[0]
    if mode not in MODES:
        raise ValueError(f"ESCAPEMENT_TLS must be one of {', '.join(MODES)}, not {mode!r}.")
    certificate = environment.get("ESCAPEMENT_TLS_CERT")
    if not certificate:
        if mode == "enforcing":
            raise ValueError("ESCAPEMENT_TLS=enforcing needs a certificate: set ESCAPEMENT_TLS_CERT.")
        return None
    return {
        "cert_file": certificate,
        "key_file": environment.get("ESCAPEMENT_TLS_KEY") or None,
        "client_ca_file": environment.get("ESCAPEMENT_TLS_CLIENT_CA") or None,
        "is_required": mode == "enforcing",
    }


def client_access(environment: Mapping[str, str], access_key: str, secret: str) -> Access:
    """Keyword arguments for this project's own clients: signed where there is a secret, TLS where plain is refused."""
    access: Access = {}
    if secret:
        access |= {"access_key": access_key, "secret_key": secret}
    speaks_tls = environment.get("ESCAPEMENT_NAMESRV_TLS")
    if speaks_tls == "1" or (speaks_tls != "0" and environment.get("ESCAPEMENT_TLS") == "enforcing"):
        access["tls"] = Tls(
            ca_file=environment.get("ESCAPEMENT_TLS_CA") or None,
            server_name=environment.get("ESCAPEMENT_TLS_NAME") or None,
            cert_file=environment.get("ESCAPEMENT_TLS_CLIENT_CERT") or None,
            key_file=environment.get("ESCAPEMENT_TLS_CLIENT_KEY") or None,
        )
    return access
