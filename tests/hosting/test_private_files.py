"""What a run leaves behind is for its own user only, and nothing outside of it is opened for that."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from console.run import postgres
from console.run.postgres import Cluster, ClusterFailed
from console.run.private_files import FOR_OTHERS, narrow
from tests.waiting import until

ROOT = Path(__file__).parents[2]
IS_ROOT = os.geteuid() == 0
PASSWORD = "of-this-test"
NOBODY = 65534


@pytest.fixture
def closed() -> Iterator[Path]:
    """A home that only its owner can reach, as /root is."""
    with tempfile.TemporaryDirectory(prefix="escapement-home-") as directory:
        assert modes([Path(directory)]) == [0o700]
        yield Path(directory)


@pytest.fixture(autouse=True)
def wide_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(paths: list[Path]) -> list[int]:
    return [path.lstat().st_mode & 0o7777 for path in paths]


def open_to_others(directory: Path) -> list[str]:
    """A socket counts by the directory that it is in."""
    found = [each for each in (directory, *directory.rglob("*")) if not each.is_symlink() and not each.is_socket()]
    return [str(each) for each in found if each.stat().st_mode & FOR_OTHERS]


def query(cluster: Cluster, statement: str) -> object:
    cluster.start()
    cluster.await_ready()
    try:
        with psycopg.connect(cluster.address, autocommit=True) as connection:
            done = connection.execute(statement)
            return done.fetchone() if done.description else None
    finally:
        cluster.stop()


def test_what_is_wider_is_narrowed_inside_and_nowhere_else(tmp_path: Path) -> None:
    var, outside = tmp_path / "var", tmp_path / "outside"
    (var / "log").mkdir(parents=True)
    for path in (var / "log" / "web.log", outside):
        path.write_text("said")
        path.chmod(0o666)
    (var / "link").symlink_to(outside)
    (var / "log" / "run").write_text("")
    (var / "log" / "run").chmod(0o755)
    before = modes([tmp_path, outside])
    assert narrow(var) == 4
    assert open_to_others(var) == []
    assert modes([var / "log" / "run", var / "log" / "web.log", var]) == [0o700, 0o600, 0o700]
    assert modes([tmp_path, outside]) == before
    assert narrow(var) == 0


def test_a_directory_that_is_not_only_for_data_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, home = tmp_path / "shared", tmp_path / "home"
    for directory in (shared, home):
        directory.mkdir()
        (directory / "file").write_text("")
    shared.chmod(0o1777)
    monkeypatch.setenv("HOME", str(home))
    for directory in (shared, home, ROOT, Path("/")):
        assert narrow(directory) == 0
    assert modes([shared, home, home / "file"]) == [0o1777, 0o755, 0o644]


def test_a_database_under_a_closed_directory_opens_nothing(closed: Path) -> None:
    var = closed / "checkout" / "var"
    (closed / "checkout").mkdir(mode=0o700)
    wheel = postgres._packages() / postgres.PROGRAMS
    outside = [*var.parents, wheel, *wheel.parents]
    before = modes(outside)
    running = subprocess.Popen(
        [sys.executable, "-m", "console.run.embedded", "postgres"],
        cwd=ROOT, env=os.environ | {"ESCAPEMENT_VAR": str(var)},
    )  # fmt: skip
    try:
        until(lambda: running.poll() is not None or answers(var / "database-owner-url"), 60)
        assert modes(outside) == before
        assert open_to_others(closed) == []
        data = (var / "postgres").resolve()
        assert open_to_others(data) == []
        assert not IS_ROOT or reads_nothing([var, data, data / "PG_VERSION", data / ".s.PGSQL.5432", data.parent])
    finally:
        running.terminate()
        assert running.wait(60) == 0


def answers(address: Path) -> bool:
    try:
        psycopg.connect(address.read_text().strip()).close()
    except (OSError, psycopg.OperationalError):
        return False
    return True


def reads_nothing(paths: list[Path]) -> bool:
    """Whether another user can neither list nor read any of them."""
    tried = subprocess.run(
        ["cat", "--", *map(str, paths)], user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    listed = subprocess.run(
        ["ls", "--", *map(str, paths)], user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    return not tried.stdout and not listed.stdout


@pytest.mark.parametrize("step", ["as it was", "link made", "moved"])
def test_data_of_an_older_version_go_on_whichever_step_of_the_move_was_the_last(closed: Path, step: str) -> None:
    directory = closed / "postgres"
    query(Cluster(directory, PASSWORD), "CREATE TABLE kept AS SELECT 4711 AS number")
    if IS_ROOT:  # as older versions had it, or as a move left it that was ended
        place = directory.readlink()
        if step == "as it was":
            directory.unlink()
            place.rename(directory)
        else:
            directory.rename(directory.with_name("postgres.place"))
            if step == "link made":
                place.rename(directory)
    assert query(Cluster(directory, PASSWORD), "SELECT number FROM kept") == (4711,)
    assert [each.name for each in closed.iterdir() if each.name != "postgres.lock"] == ["postgres"]


def test_data_are_moved_to_another_file_system_too(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = closed / "postgres"
    query(Cluster(directory, PASSWORD), "CREATE TABLE kept AS SELECT 4711 AS number")
    if IS_ROOT:
        place = directory.readlink()
        directory.unlink()
        place.rename(directory)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        Path(memory).chmod(0o711)
        monkeypatch.setenv("ESCAPEMENT_DATABASE_DIR", memory)
        assert query(Cluster(directory, PASSWORD), "SELECT number FROM kept") == (4711,)
        assert not IS_ROOT or directory.readlink().parent == Path(memory)


def test_a_cluster_without_a_password_is_given_one(closed: Path) -> None:
    cluster = Cluster(closed / "postgres", PASSWORD)
    assert query(cluster, "SELECT 1") == (1,)
    (closed / "postgres" / "pg_hba.conf").write_text("local all all trust\n")
    assert query(Cluster(closed / "postgres", "another"), "SELECT 2") == (2,)
    with pytest.raises(psycopg.OperationalError, match="password"):
        query(cluster, "SELECT 3")


def test_two_processes_never_keep_the_same_cluster(closed: Path) -> None:
    first, second = Cluster(closed / "postgres", PASSWORD), Cluster(closed / "postgres", PASSWORD)
    first.start()
    with pytest.raises(ClusterFailed, match="Another process"):
        second.start()
    first.stop()


def test_a_server_whose_keeper_was_killed_is_ended_before_the_next(closed: Path) -> None:
    first, second = Cluster(closed / "postgres", PASSWORD), Cluster(closed / "postgres", PASSWORD)
    first.start()
    first.await_ready()
    os.close(first._lock)  # which a killed process does not hold any more
    assert query(second, "SELECT 1") == (1,)
    assert not first.is_running


def test_starts_at_once_make_one_user() -> None:
    """Two of useradd at once found the name free: the second gave it another number, and the first server ended."""
    name = f"esc-{os.getpid()}" if IS_ROOT else pwd.getpwuid(os.geteuid()).pw_name
    steps = [f"home.USER = {name!r}", "print(flush=True)", "input()", "print(home._user().pw_uid)"]
    call = "; ".join(["from console.run import postgres as home", *steps])
    start = [sys.executable, "-c", call]
    try:
        starts = [subprocess.Popen(start, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)]
        for each in starts:
            assert each.stdin is not None and each.stdout is not None
            each.stdout.readline()
        for each in starts:
            each.stdin.write(b"\n")
            each.stdin.flush()
        said = {each.communicate(timeout=60)[0] for each in starts}
        assert said == {b"%d\n" % pwd.getpwnam(name).pw_uid}
    finally:
        if IS_ROOT:
            subprocess.run(["userdel", name], check=True)


def test_data_of_another_version_are_refused_untouched(closed: Path) -> None:
    cluster = Cluster(closed / "postgres", PASSWORD)
    query(cluster, "SELECT 1")
    (closed / "postgres" / "PG_VERSION").write_text("12\n")
    with pytest.raises(ClusterFailed, match="created by PostgreSQL 12"):
        cluster.start()


def test_a_place_that_its_user_cannot_reach_is_refused_not_opened(
    closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ESCAPEMENT_DATABASE_DIR", str(closed / "databases"))
    with pytest.raises(ClusterFailed, match="ESCAPEMENT_DATABASE_DIR"):
        postgres._base()
    assert modes([closed]) == [0o700]


@pytest.mark.parametrize(
    "command",
    [
        ["manage.py", "prepare", "--help"],
        ["-m", "console.site.web"],
        ["-m", "broker.server", "--help"],
        ["-m", "console.run.embedded"],
        ["-m", "celery", "-A", "console.site", "worker", "--help"],
        ["-m", "celery", "-A", "console.site", "beat", "--help"],
        ["-m", "spark.run"],
        ["-m", "spark.follow"],
    ],
    ids=lambda command: " ".join(command),
)
def test_every_process_makes_files_for_its_user_only(command: list[str], tmp_path: Path) -> None:
    """Each is ended early: what it told the system before is what counts."""
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, os, pathlib\n"
        f"atexit.register(lambda: pathlib.Path({str(tmp_path / 'made')!r}).write_text(''))\n"
    )
    environment = {"PYTHONPATH": f"{tmp_path}:{ROOT}", "ESCAPEMENT_WEB_HOST": "0.0.0.0"}
    subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=os.environ | environment, stdin=subprocess.DEVNULL,
        capture_output=True, check=False,
    )  # fmt: skip
    assert modes([tmp_path / "made"]) == [0o600]
