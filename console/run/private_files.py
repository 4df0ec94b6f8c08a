"""The privacy of a run's files below `var/`: modes for its own user only, also on what older runs left, and secrets.

Secrets are made once and kept there. So is the first login, made when there is no user yet, in `var/first-login`.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model

FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def keep_private() -> None:
    """Set the umask so that whatever this process and its children create is for their user only."""
    os.umask(FOR_OTHERS)


def is_of_its_own(directory: Path) -> bool:
    """Tell whether the directory holds nothing but a run's data: not a home, not this project, not a shared /tmp."""
    held = [Path(__file__).resolve(), Path.home(), Path.cwd()]
    if any(each.is_relative_to(directory) for each in held):
        return False
    return not directory.stat().st_mode & stat.S_ISVTX


def narrow(directory: Path) -> int:
    """Remove the rights of others from our own files and directories in there, and from the directory itself.

    Returns how many were changed. Links are not followed.
    """
    if not is_of_its_own(directory):
        return 0
    count = 0
    for _path, directories, files, here in os.fwalk(directory):
        count += _narrow_one(".", here)
        for name in (*directories, *files):
            count += _narrow_one(name, here)
    return count


def _narrow_one(name: str, here: int) -> int:
    try:
        found = os.stat(name, dir_fd=here, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode) or found.st_uid != os.geteuid() or not found.st_mode & FOR_OTHERS:
            return 0
        os.chmod(name, stat.S_IMODE(found.st_mode) & ~FOR_OTHERS, dir_fd=here)
    except FileNotFoundError:  # gone meanwhile
        return 0
    return 1


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


def forget_first_login(name: str) -> None:
    """Remove the first login's file if it is this account's: its password opens nothing any more."""
    try:
        login = first_login()
        if login is not None and login[0] == name:
            first_login_path().unlink(missing_ok=True)
    except (OSError, ValueError):
        # of another user of this machine, or not ours: whoever put it there removes it
        return
