"""Which version this program is: what `pyproject.toml` says, as the installation has it."""

from __future__ import annotations

from importlib import metadata

DISTRIBUTION = "escapement-mq"


def version() -> str:
    """Return the version of the installed distribution; "unknown" where it runs without being installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown"
