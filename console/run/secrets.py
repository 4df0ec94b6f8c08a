"""Secrets that are made once and kept under `var/`, readable by their owner only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

SECRET_BYTES = 48


def kept_secret(path: Path, size_bytes: int = SECRET_BYTES) -> str:
    """Return the secret in `path`, made from `size_bytes` random bytes at the first call; two first callers get the
    same."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        write_private(path, secrets.token_urlsafe(size_bytes), replace=False)
    except FileExistsError:
        pass
    return path.read_text().strip()


def write_private(path: Path, text: str, *, replace: bool = True) -> None:
    """Write `text` with mode 0600, whole or not at all. Raises FileExistsError when it may not replace."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text + "\n")
    try:
        if replace:
            temporary.rename(path)
        else:
            os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
