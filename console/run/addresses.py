"""The addresses of the servers, from the environment or from what the embedded servers left in `var/`.

The way to speak with them stands here as well: this project's own clients sign where there is a secret. TLS is set by
these variables:

| Variable                                              | Whose                                                  |
|-------------------------------------------------------|--------------------------------------------------------|
| ESCAPEMENT_TLS_CERT, ESCAPEMENT_TLS_KEY               | the broker's certificate chain and key                 |
| ESCAPEMENT_TLS_CLIENT_CA                              | the broker asks clients for a certificate of these     |
| ESCAPEMENT_TLS                                        | `remote` (default): no plain clients of other machines |
|                                                       | `permissive`: of everywhere, `enforcing`: none         |
| ESCAPEMENT_WEB_TLS_CERT, ESCAPEMENT_WEB_TLS_KEY       | the console's certificate chain and key                |
| ESCAPEMENT_NAMESRV_TLS, ESCAPEMENT_TLS_CA,            | our own clients: whether they speak TLS, whom they     |
| ESCAPEMENT_TLS_NAME                                   | trust, which name they expect                          |
| ESCAPEMENT_TLS_CLIENT_CERT, ESCAPEMENT_TLS_CLIENT_KEY | our own clients: their certificate                     |

TCP ports of this machine: which are in use, and which are free.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from broker.client import Access, Tls

#: the checkout; in a wheel the package that the console is a part of
_HOME = Path(__file__).resolve().parents[2]
DATABASE_URL_FILE = "database-url"
OWNER_URL_FILE = "database-owner-url"
SPARK_URL_FILE = "database-spark-url"
REDIS_URL_FILE = "redis-url"

#: whose plain connections are served where there is a certificate: this machine's, everybody's, nobody's
MODES = ("remote", "permissive", "enforcing")


def var_directory() -> Path:
    """Return the directory that holds everything a run leaves behind; ESCAPEMENT_VAR moves it.

    Without that it is `var` of a checkout; for what was installed, `escapement` where a user's programs keep data.
    """
    return Path(os.environ.get("ESCAPEMENT_VAR") or _own_directory()).resolve()


def is_checkout() -> bool:
    """Tell whether this runs from a checkout, and not from an installed wheel."""
    return (_HOME / "manage.py").exists()


def _own_directory() -> Path:
    if is_checkout():
        return _HOME / "var"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "escapement"


def database_url() -> str:
    """Return DATABASE_URL, else the embedded PostgreSQL, else an address that refuses clearly as nothing ran yet."""
    return _address("DATABASE_URL", DATABASE_URL_FILE) or "postgresql://postgres@127.0.0.1:5432/postgres"


def owner_url() -> str:
    """Return the address by which tables are made and changed; empty: that of everything else does it, too."""
    if "DATABASE_URL" in os.environ:
        return os.environ.get("ESCAPEMENT_DATABASE_OWNER_URL", "")
    return _address("ESCAPEMENT_DATABASE_OWNER_URL", OWNER_URL_FILE)


def spark_url() -> str:
    """Return the address by which dashboards are written; empty: that of everything else."""
    if "DATABASE_URL" in os.environ:
        return os.environ.get("ESCAPEMENT_SPARK_DATABASE_URL", "")
    return _address("ESCAPEMENT_SPARK_DATABASE_URL", SPARK_URL_FILE)


def redis_url() -> str:
    """Return REDIS_URL, else the embedded Valkey, else an address that refuses clearly as nothing ran yet."""
    return _address("REDIS_URL", REDIS_URL_FILE) or "redis://127.0.0.1:6379/0"


def reachable_host(host: str) -> str:
    """Return the host by which processes of this machine reach a server that listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104 - it is asked, not listened on # nosec B104


def database_settings(url: str) -> dict[str, Any]:
    """Make an entry of Django's DATABASES from a `postgresql://` address; its query string becomes OPTIONS.

    Raises ValueError when the address is not one of PostgreSQL.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("postgres", "postgresql"):
        raise ValueError(f"DATABASE_URL must begin with postgresql://, not {parts.scheme}://")
    options = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")) or "postgres",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", None) or parts.hostname or "",
        "PORT": str(options.pop("port", None) or parts.port or ""),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": options,
    }


def _address(variable: str, file_name: str) -> str:
    given = os.environ.get(variable)
    if given:
        return given
    path = var_directory() / file_name
    return path.read_text().strip() if path.exists() else ""


def server_certificates(environment: Mapping[str, str]) -> dict[str, Any] | None:
    """Return arguments for TlsConfig, None without a certificate. Raises ValueError for settings that contradict each
    other."""
    usual = "permissive" if environment.get("ESCAPEMENT_PLAINTEXT") == "1" else MODES[0]
    mode = environment.get("ESCAPEMENT_TLS") or usual
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
        "is_required_elsewhere": mode == "remote",
    }


def web_certificates(environment: Mapping[str, str]) -> dict[str, Any] | None:
    """Return arguments for TlsConfig of the console, None where it shows no certificate of its own."""
    certificate = environment.get("ESCAPEMENT_WEB_TLS_CERT")
    if not certificate:
        return None
    return {"cert_file": certificate, "key_file": environment.get("ESCAPEMENT_WEB_TLS_KEY") or None}


def client_access(environment: Mapping[str, str], access_key: str, secret: str) -> Access:
    """Return keyword arguments for this project's own clients: signed if there is a secret, TLS if plain is refused."""
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


LOOPBACK = "127.0.0.1"
CONNECT_TIMEOUT_S = 0.5
#: where a broker's VIP channel is, below its port
VIP_BELOW = 2
_TRIES = 20


def taken(host: str, port: int) -> bool:
    """Tell whether another program occupies the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def answers(host: str, port: int) -> bool:
    """Tell whether a server accepts connections at the port."""
    try:
        socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    """Return a loopback port that is free now, as is the one two below it, a broker's VIP channel."""
    for _ in range(_TRIES):
        with socket.socket() as probe:
            probe.bind((LOOPBACK, 0))
            port: int = probe.getsockname()[1]
            if not taken(LOOPBACK, port - VIP_BELOW):
                break
    return port
