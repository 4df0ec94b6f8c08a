"""The first login: made once, when there is no user yet, and kept in `var/first-login` for its owner."""

from __future__ import annotations

import secrets
from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model

from console.run.private_files import write_private

FIRST_USER = "admin"
PASSWORD_BYTES = 12


def first_login_path() -> Path:
    """Return the file that keeps the first login: two lines, user name and password, mode 0600."""
    path: Path = settings.VAR / "first-login"
    return path


def ensure_first_login() -> bool:
    """Create a first user with a random password if there is no user at all. Returns whether it did."""
    users = get_user_model()._default_manager
    if users.exists():
        return False
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    # Written first: a user whose password nobody has is worse than a password without a user.
    write_private(first_login_path(), f"{FIRST_USER}\n{password}")
    get_user_model().objects.create_superuser(FIRST_USER, password=password)
    return True


def first_login() -> tuple[str, str] | None:
    """Return user name and password of the first login; None if it was not made here or its file was removed."""
    path = first_login_path()
    if not path.exists():
        return None
    name, password = path.read_text().split()
    return name, password
