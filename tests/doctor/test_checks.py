"""The doctor of a machine and a store: each check is made to fail, and says what to do."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from broker.doctor import Finding, Verdict, as_json, cannot_tell, change, chosen, examine, exit_code, machine, ok, ports
from broker.doctor import store as store_checks
from broker.doctor import told as as_lines
from broker.doctor.command import checks_of
from broker.testing import BrokerThread, small_store
from tests.hosting.test_log_lines import HOSTILE
from tests.house.sources import ROOT

#: listens, says where, and waits; with the umask that it is given
LISTENER = """
import os, signal, socket, sys
os.umask(int(sys.argv[1], 8))
listening = socket.create_server(('127.0.0.1', 0))
print(listening.getsockname()[1], flush=True)
signal.pause()
"""


@contextmanager
def listener(mask: str = "077") -> Iterator[int]:
    """A process that is not ours and listens; its port."""
    with subprocess.Popen(
        [sys.executable, "-c", LISTENER, mask], stdout=subprocess.PIPE, text=True, cwd="/"
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


@contextmanager
def readonly_broker() -> Iterator[int]:
    """A port that answers as a broker does whose disk is full."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(503)
            self.end_headers()
            self.wfile.write(b"READONLY\n")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def proc(place: Path, **files: str) -> Path:
    """What the kernel of another machine would say."""
    for name, text in files.items():
        path = place / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return place


def mounted(place: Path, kind: str, options: str = "rw") -> Path:
    path = place / "mountinfo"
    path.write_text(f"1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:2 / {place} {options} - {kind} /dev/b rw\n")
    return path


def port_taken(place: Path) -> Finding:
    with listener() as port:
        return ports.port("broker", "127.0.0.1", port, "--port")


def refused_messages(place: Path) -> Finding:
    with readonly_broker() as port:
        return ports.broker_ready("127.0.0.1", port, "start it")


def open_umask(place: Path) -> Finding:
    with listener("022") as port:
        return ports.umask(port)


def few_descriptors(place: Path) -> Finding:
    command = [sys.executable, "-m", "broker", "doctor", str(place), "--only", "limits.descriptors", "--json"]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -n 256 && exec "$@"', "sh", *command], cwd=ROOT, capture_output=True, check=False
    )
    (row,) = json.loads(done.stdout)["checks"]
    assert done.returncode == 1
    return Finding(Verdict(row["verdict"]), row["text"], row["remedy"])


def stepped(place: Path) -> Finding:
    clock = [1000.0]
    steps = machine.ClockSteps(wall_s=lambda: clock[0], steady_s=lambda: 5.0)
    assert steps().verdict is Verdict.OK
    clock[0] += 0.2
    return steps()


def newer_format(place: Path) -> Finding:
    with BrokerThread(small_store(place)):
        pass
    assert store_checks.there(place).verdict is Verdict.OK
    (place / "escapement.format").write_text("99\n")
    return store_checks.there(place)


def open_store(place: Path) -> Finding:
    place.chmod(0o755)
    (place / "access.json").write_text("{}")
    return store_checks.permissions(place)


def from_the_future(place: Path) -> Finding:
    (place / "checkpoint").write_bytes((2_000).to_bytes(8, "big") + bytes(4088))
    assert store_checks.clock_of_store(place, now_ms=2_000).verdict is Verdict.OK
    return store_checks.clock_of_store(place, now_ms=500)


#: how each check is made to fail, and a part of what it says then
FAILS: dict[str, tuple[Callable[[Path], Finding], str]] = {
    "store": (newer_format, "newer Escapement"),
    "disk.free": (lambda place: store_checks.disk_free(place, refuses_at=0.0), "at 0% the broker refuses"),
    "disk.inodes": (lambda place: store_checks.inodes(place, wanted=2.0), "inodes are left"),
    "disk.file-system": (lambda place: store_checks.file_system(Path("/dev", "shm")), "is tmpfs"),
    "disk.sync": (lambda place: store_checks.sync_time(place, limit_ms=0.0), "ms for a sync"),
    "permissions.store": (open_store, "others may use"),
    "clock.store": (from_the_future, "1.5 s behind"),
    "port.broker": (port_taken, "wanted for the broker, is taken by"),
    "port.namesrv": (port_taken, "is taken by"),
    "broker": (refused_messages, "accepts no messages: READONLY"),
    "permissions.umask": (open_umask, "umask 022"),
    "clock.synchronised": (lambda place: machine.clock_synchronised(lambda: (0x0040, 0)), "the clock is not"),
    "limits.descriptors": (few_descriptors, "a process may open 256 files"),
    "limits.container": (
        lambda place: machine.container(lambda: machine.Limits(None, (5, 100), None)), "5 of the 100 threads"
    ),
    "memory": (lambda place: machine.memory(wanted_bytes=1 << 60), "MB are left"),
    "memory.overcommit": (
        lambda place: machine.overcommit(proc(place, sys__vm__overcommit_memory="2\n")), "not overcommitted"
    ),
    "version.python": (lambda place: machine.python((3, 10, 1)), "Python 3.10.1"),
    "clock.steps": (stepped, "moved by +200 ms"),
}  # fmt: skip


def test_each_check_has_a_way_to_fail() -> None:
    assert set(FAILS) == set(checks_of(Path("/nowhere"), "127.0.0.1", 1, 2))


@pytest.mark.parametrize("name", FAILS)
def test_a_check_that_fails_says_what_to_change(name: str, tmp_path: Path) -> None:
    fails, part = FAILS[name]
    found = fails(tmp_path)
    assert found.verdict is Verdict.CHANGE
    assert part in found.text
    assert found.remedy


def test_a_port_of_a_broker_that_is_there_is_ours(tmp_path: Path) -> None:
    with BrokerThread(small_store(tmp_path)) as running:
        host, _, port = running.address.partition(":")
        assert ports.broker_ready(host, int(port), "start it").verdict is Verdict.OK
        assert ports.holder_of(int(port)) is not None
        assert not ports.is_free(host, int(port))
    assert ports.broker_ready(host, int(port), "start it") == change(
        f"no broker answers at {host}:{port}: [Errno 111] Connection refused", "start it"
    )


@pytest.mark.parametrize(
    ("kind", "options", "part"),
    [
        ("ext4", "ro", "for reading only"),
        ("ext4", "rw,nobarrier", "without barriers"),
        ("nfs4", "rw", "elsewhere"),
        ("overlay", "rw", "layer of a container"),
        ("ext4", "rw", ""),
        ("strangefs", "rw", "not tried"),
    ],
)
def test_file_systems(kind: str, options: str, part: str, tmp_path: Path) -> None:
    found = store_checks.file_system(tmp_path / "store", mounted(tmp_path, kind, options))
    assert part in found.text
    assert found.verdict is {"": Verdict.OK, "not tried": Verdict.CANNOT_TELL}.get(part, Verdict.CHANGE)


def test_other_things_that_are_wrong(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert "is no directory" in store_checks.there(file).text
    swaps = proc(tmp_path, meminfo="MemAvailable: 9000000 kB\nSwapTotal: 1 kB\n", sys__vm__swappiness="60\n")
    assert "vm.swappiness=60" in machine.memory(proc=swaps).text
    assert machine.memory(proc=tmp_path / "none").verdict is Verdict.CANNOT_TELL
    assert machine.overcommit(tmp_path / "none").verdict is Verdict.CANNOT_TELL
    assert machine.clock_synchronised(lambda: None).verdict is Verdict.CANNOT_TELL
    assert machine.clock_synchronised(lambda: (0, 2_500)).text == "synchronised, off by at most 2 ms"
    assert store_checks.clock_of_store(tmp_path).verdict is Verdict.OK
    assert "nothing can be written" in store_checks.sync_time(Path("/proc")).text


def test_how_python_was_compiled() -> None:
    assert "without optimizations" not in machine.python(optimized=lambda: True).text
    slow = machine.python(optimized=lambda: False)
    assert slow.verdict is Verdict.OK
    assert "without optimizations" in slow.text


def test_nothing_is_left_behind_and_nothing_is_changed(tmp_path: Path) -> None:
    list(examine(checks_of(tmp_path, "127.0.0.1", 1, 2)))
    assert list(tmp_path.iterdir()) == []


def test_a_private_directory_keeps_what_is_in_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "log").write_text("")
    os.chmod(tmp_path / "log", 0o644)
    assert store_checks.permissions(tmp_path).verdict is Verdict.OK


def test_findings_are_told_as_lines_and_as_json() -> None:
    def breaks() -> Finding:
        raise OSError("no such thing\nand more")

    checks = {"a": lambda: ok("well"), "b": lambda: change(HOSTILE, "mend it"), "c": breaks}
    found = list(examine(checks))
    assert exit_code(found) == 1
    assert found[2] == ("c", cannot_tell("the check failed: OSError: no such thing"))
    lines = list(as_lines(found))
    assert lines[0].split() == ["ok", "a", "well"]
    assert lines[2].strip() == "-> mend it"
    assert lines[-1] == "1 ok, 1 to change, 1 cannot be told"
    assert all(line.isprintable() for line in lines)
    rows = json.loads(as_json(found))
    assert (rows["to_change"], [row["verdict"] for row in rows["checks"]]) == (1, ["ok", "change", "cannot tell"])
    assert exit_code(found[:1]) == 0
    assert list(chosen(checks, ["a"])) == ["a"]
    with pytest.raises(ValueError, match="no check 'x'"):
        chosen(checks, ["x"])


def test_an_address_of_another_machine_is_not_ours_to_tell() -> None:
    found = list(examine({"port": lambda: ports.port("broker", "203.0.113.1", 10911, "--port")}))
    assert found[0][1].verdict is Verdict.CANNOT_TELL


def test_a_free_port_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert not ports.is_free("127.0.0.1", port)
    assert ports.port("broker", "127.0.0.1", port, "--port").verdict is Verdict.OK


def group(place: Path, **files: str) -> None:
    """Write files of a control group, with a dot for each underscore."""
    place.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (place / name.replace("_", ".", 1)).write_text(text + "\n")


@pytest.fixture
def inner(tmp_path: Path) -> Path:
    """The group of this process, within one that sets limits as well."""
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text("0::/outer/inner\n")
    group(tmp_path / "groups")
    return tmp_path / "groups" / "outer" / "inner"


def found_in(tmp_path: Path) -> Finding:
    return machine.container(lambda: machine.limits_of_groups(tmp_path / "proc", tmp_path / "groups"))


def test_a_container_without_limits(tmp_path: Path, inner: Path) -> None:
    group(inner, memory_max="max", memory_current="1", cpu_max="max 100000", pids_max="max", pids_current="7")
    assert found_in(tmp_path) == ok("no limit of a container")
    assert (
        machine.container(lambda: machine.limits_of_groups(tmp_path / "none", tmp_path / "none")).verdict is Verdict.OK
    )


def test_limits_of_a_container_that_leave_room(tmp_path: Path, inner: Path) -> None:
    gib = 1 << 30
    group(inner, memory_max=str(2 * gib), memory_current=str(2 * gib), memory_stat=f"anon 1\ninactive_file {gib}")
    group(inner, cpu_max="150000 100000", pids_max="512", pids_current="12")
    text = "1,024 of 2,048 MB are left, 1.5 cores, 500 threads and processes are left"
    assert found_in(tmp_path) == ok(text)


@pytest.mark.parametrize(
    ("files", "said", "remedy"),
    [
        ({"memory_max": f"{300 << 20}", "memory_current": f"{200 << 20}"}, "100 MB are left of", "--memory 456m"),
        ({"cpu_max": "50000 100000"}, "0.50 of a core", "--cpus 1"),
        ({"pids_max": "150", "pids_current": "100"}, "50 of the 150 threads", "--pids-limit 300"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["inner", "around"])
def test_a_limit_that_leaves_too_little_wherever_it_is_set(
    tmp_path: Path, inner: Path, where: str, files: dict[str, str], said: str, remedy: str
) -> None:
    group(inner, memory_max="max", cpu_max="max 100000", pids_max="max")
    group(inner if where == "inner" else inner.parent, **files)
    found = found_in(tmp_path)
    assert said in found.text
    assert remedy in (found.remedy or "")
