"""Where the servers are: from the environment, or from what the embedded servers left under `var/`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

DATABASE_URL_FILE = "database-url"
REDIS_URL_FILE = "redis-url"


def var_directory() -> Path:
    """The directory that holds everything a run leaves behind; ESCAPEMENT_VAR moves it."""
    return Path(os.environ.get("ESCAPEMENT_VAR") or Path(__file__).resolve().parents[2] / "var").resolve()


def database_url() -> str:
    """DATABASE_URL, else the embedded PostgreSQL, else an address that refuses clearly because nothing ran yet."""
    return _address("DATABASE_URL", DATABASE_URL_FILE) or "postgresql://postgres@127.0.0.1:5432/postgres"


def redis_url() -> str:
    """REDIS_URL, else the embedded Valkey, else an address that refuses clearly because nothing ran yet."""
    return _address("REDIS_URL", REDIS_URL_FILE) or "redis://127.0.0.1:6379/0"


def house_host(host: str) -> str:
    """Where this machine's own processes reach what listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104 - it is asked, not listened on


def database_settings(url: str) -> dict[str, Any]:
    """One entry of Django's DATABASES from a `postgresql://` address; its query string becomes OPTIONS.

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
