"""A directory that another user may reach: as root the embedded PostgreSQL runs as a user of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def reachable() -> Iterator[Path]:
    """Not under pytest's own directory, which every run of pytest closes to others when it begins."""
    with tempfile.TemporaryDirectory(prefix="escapement-home-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)
