"""A whole installation (PostgreSQL, Valkey, broker, mirror, web) on ports and a var/ of its own, to be measured."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench.results import REPOSITORY
from tests.interop.process import Child
from tests.ports import free_ports

START_TIMEOUT_S = 180
USER, PASSWORD, OWN_PASSWORD = "bench", "a long word for one run", "another long word for one run"
MANAGE = str(REPOSITORY / "manage.py")


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation that runs: its address, its name server, its environment."""

    base: str
    namesrv: str
    env: dict[str, str]

    def manage(self, *arguments: str) -> str:
        """Run a management command and return what it printed."""
        env = {**os.environ, **self.env, "DJANGO_SUPERUSER_PASSWORD": PASSWORD}
        done = subprocess.run(
            [sys.executable, MANAGE, *arguments], env=env, capture_output=True, text=True, timeout=120, check=True
        )
        return done.stdout.strip()

    def pid_of(self, option: str) -> int:
        """Return the process of this installation that was started with an option such as `--mirror`."""
        for pid, arguments in self.processes():
            if option.encode() in arguments:
                return pid
        raise RuntimeError(f"no process of the installation was started with {option}")

    def processes(self) -> Iterator[tuple[int, list[bytes]]]:
        """Yield id and arguments of each process of this installation."""
        mine = f"ESCAPEMENT_VAR={self.env['ESCAPEMENT_VAR']}".encode()
        for place in Path("/proc").glob("[0-9]*"):
            try:
                arguments, environment = ((place / name).read_bytes().split(b"\0") for name in ("cmdline", "environ"))
            except OSError:  # it has ended, or is somebody else's
                continue
            if mine in environment:
                yield int(place.name), arguments

    def signed_in(self) -> httpx.Client:
        """Return a browser's session of a superuser made for this run."""
        self.manage("createsuperuser", "--noinput", "--username", USER, "--email", "bench@example.org")
        client = httpx.Client(base_url=self.base, timeout=60)
        self._send(client, "/login/", username=USER, password=PASSWORD)
        if client.get("/").status_code == 302:  # who got a password from somebody else chooses an own one first
            self._send(client, "/account/password/", password=PASSWORD, new=OWN_PASSWORD, again=OWN_PASSWORD)
            client.get("/").raise_for_status()
        return client

    def _send(self, client: httpx.Client, path: str, **fields: str) -> None:
        """Send a form that leads on to another page."""
        client.get(path)
        token = client.cookies["csrftoken"]
        answer = client.post(path, data={**fields, "csrfmiddlewaretoken": token}, headers={"Referer": self.base})
        if answer.status_code not in (302, 303):
            raise RuntimeError(f"{path} answered {answer.status_code}")


@contextmanager
def installed(base: Path, namesrv: str = "", flush: str = "sync") -> Iterator[Installation]:
    """Start an installation; with `namesrv` it follows that broker instead of one of its own."""
    first = free_ports(3)
    env = {
        "ESCAPEMENT_VAR": str(base / "var"),
        "ESCAPEMENT_DEMO": "0",
        "ESCAPEMENT_WEB_PORT": str(first),
        "ESCAPEMENT_BROKER_PORT": str(first + 1),
        "ESCAPEMENT_NAMESRV_PORT": str(first + 2),
        "ESCAPEMENT_FLUSH": flush,
        **({"ESCAPEMENT_NAMESRV": namesrv} if namesrv else {}),
    }
    child = Child([sys.executable, MANAGE, "run"], log=base / "installation.err", env=env)
    one = Installation(f"http://127.0.0.1:{first}", namesrv or f"127.0.0.1:{first + 2}", env)
    try:
        await_pages(one, child)
        yield one
    finally:
        child.stop(60)


def await_pages(one: Installation, child: Child) -> None:
    """Wait until the sign-in page is served."""
    deadline = time.monotonic() + START_TIMEOUT_S
    pause = threading.Event()
    while time.monotonic() < deadline and child.process.poll() is None:
        try:
            if httpx.get(f"{one.base}/login/", timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        pause.wait(0.2)
    raise RuntimeError(f"the installation did not start: {child.tail()}")
