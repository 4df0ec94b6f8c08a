"""A PostgreSQL of our own: behind a password from its first moment, reached by a socket file only."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from console.run.postgres_home import Home, cluster_home
from console.run.postmaster import STOP_S, ClusterFailed, end_remaining, is_ready
from console.run.private_files import FOR_OTHERS
from console.run.secrets import write_private

MAJOR = "18"
ACCESS_RULES = "local all all scram-sha-256\n"
#: What sockaddr_un holds, the zero at its end included, on the narrowest system (macOS).
SOCKET_PATH_BYTES = 104
SOCKET_NAME = ".s.PGSQL.5432"
PR_SET_PDEATHSIG = 1
_POLL_S = 0.05
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


class Cluster:
    """One data directory and, between `start` and `stop`, its server, which ends with this process at the latest."""

    def __init__(self, directory: Path, password: str) -> None:
        """`directory` is where the data are, or, as root, where a link says where they are. Raises ClusterFailed."""
        self._home = cluster_home(directory)
        self._password = password
        self._sockets = _socket_directory(self._home)
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = -1

    @property
    def address(self) -> str:
        """Its DATABASE_URL."""
        return f"postgresql://postgres:{self._password}@/postgres?host={quote(str(self._sockets))}"

    @property
    def is_running(self) -> bool:
        """Whether the server has not ended by itself."""
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
                f"{data} was made by PostgreSQL {made}, and this is {MAJOR}: dump it there, load it here."
            )
        elif (data / "pg_hba.conf").read_text() != ACCESS_RULES:
            self._require_password()
        command = [self._program("postgres"), "-D", str(data), "-h", "", "-k", str(self._sockets)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=_end_with_parent,
            **self._as_its_user(data),
        )  # fmt: skip

    def await_ready(self) -> None:
        """Return when it takes connections. Raises ClusterFailed when it has ended instead."""
        assert self._process is not None
        while not is_ready(self._home.data, self._process.pid):
            try:
                code = self._process.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                continue
            raise ClusterFailed(f"PostgreSQL ended with {code}.")

    def stop(self) -> None:
        """End its connections, then itself."""
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
        """Of a directory whose first start was ended before it had one."""
        data = self._home.data
        order = f"ALTER ROLE postgres PASSWORD '{self._password}'\n"
        self._run("postgres", "--single", "-D", str(data), "postgres", said=order)
        (data / "pg_hba.conf").write_text(ACCESS_RULES)

    def _run(self, program: str, *options: str, said: str = "") -> None:
        done = subprocess.run(
            [self._program(program), *options], input=said, text=True, capture_output=True, check=False,
            **self._as_its_user(self._home.data.parent if self._home.user is None else Path("/")),
        )  # fmt: skip
        if done.returncode:
            raise ClusterFailed(f"{program} ended with {done.returncode}: {done.stderr.strip()}")

    def _program(self, name: str) -> str:
        return str(self._home.programs / name)

    def _as_its_user(self, directory: Path) -> dict[str, Any]:
        """How its programs are run: none of our secrets in their environment."""
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
    """The data directory, or where its path is too long for a socket, one of this user's in the temporary directory."""
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


def _end_with_parent() -> None:
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGINT)
