"""docs/DEPLOY.md: its units, its environment and its nginx, from the wheel, with other paths and ports."""

from __future__ import annotations

import re
import shutil
import signal
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from broker.client import Producer
from console.run.postgres import Cluster
from tests.first_password import set_own_password
from tests.house.sources import ROOT
from tests.interop.process import Child
from tests.interop.servers import says
from tests.interop.waiting import wait_until
from tests.package.conftest import Install, run
from tests.ports import free_port

DEPLOY = ROOT / "docs" / "deploy"
NAME = "console.example.com"
START_S = 120
OK, UNAVAILABLE, FOUND, SEE_OTHER = 200, 503, 302, 303
#: uvicorn closes everything, and then ends by the signal that it was told to end by, as systemd expects
ENDED = (0, -signal.SIGTERM)
UNITS = sorted(path.name for path in DEPLOY.glob("escapement*"))


def lines_of(unit: str, name: str) -> list[str]:
    """Return the values of a name in a unit."""
    return re.findall(rf"^{name}=(.*)$", (DEPLOY / unit).read_text(), re.MULTILINE)


@dataclass
class Machine:
    """A machine on which the steps of the page were taken."""

    place: Path
    bin: Path
    environment: dict[str, str]
    owner: dict[str, str]
    web: tuple[int, int]
    https: int
    database: Cluster

    def start(self, unit: str, instance: str = "") -> Child:
        """Start the program of a unit as systemd would: its command in its environment, and nothing else."""
        (command,) = lines_of(unit, "ExecStart")
        environment = dict(self.environment)
        if "/etc/escapement/owner" in lines_of(unit, "EnvironmentFile"):
            environment |= self.owner
        environment |= dict(each.split("=", 1) for each in lines_of(unit, "Environment"))
        only = [f"{name}={value}".replace("%i", instance) for name, value in environment.items()]
        words = command.replace("/opt/escapement/bin", str(self.bin)).split()
        log = self.place / f"{unit.partition('.')[0]}{instance}.log"
        return Child(["env", "-i", *only, *words], log=log, cwd=self.place)

    def browser(self) -> httpx.Client:
        """Return a browser that comes through nginx, over HTTPS, by the public name."""
        trust = ssl.create_default_context(cafile=str(self.place / "fullchain.pem"))
        trust.check_hostname = False
        return httpx.Client(
            base_url=f"https://127.0.0.1:{self.https}", headers={"Host": NAME}, verify=trust, timeout=30
        )


@pytest.fixture(scope="module")
def machine(install: Install, valkey: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    place = tmp_path_factory.mktemp("machine")
    cluster = Cluster(place / "postgres", "words")
    var = place / "var"
    var.mkdir(mode=0o700)
    environment = dict(re.findall(r"^([A-Z_]+)=(.*)$", (DEPLOY / "environment").read_text(), re.MULTILINE))
    environment |= {
        "DATABASE_URL": cluster.address_of("escapement", "words"), "REDIS_URL": valkey,
        "ESCAPEMENT_SPARK_DATABASE_URL": cluster.address_of("escapement_spark", "words"), "SECRET_KEY": "s" * 60,
        "PATH": "/usr/bin:/bin",
        "ESCAPEMENT_VAR": str(var), "ESCAPEMENT_STORE": str(var / "store"), "ESCAPEMENT_VIP": "0",
        "ESCAPEMENT_BROKER_PORT": str(free_port()), "ESCAPEMENT_NAMESRV_PORT": str(free_port()),
    }  # fmt: skip
    try:
        owner = {"ESCAPEMENT_DATABASE_OWNER_URL": cluster.address}
        yield Machine(
            place, install("console").parent, environment, owner, (free_port(), free_port()), free_port(), cluster
        )
    finally:
        cluster.stop()


def nginx(machine: Machine) -> Child:
    """Start nginx with the page's file, at ports and with a certificate of this test."""
    run(
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={NAME}", "-addext",
        f"subjectAltName=DNS:{NAME}", "-keyout", machine.place / "key.pem", "-out", machine.place / "fullchain.pem",
    )  # fmt: skip
    conf = (DEPLOY / "nginx.conf").read_text()
    for old, new in {
        "/etc/escapement/tls": str(machine.place), "listen 443 ": f"listen 127.0.0.1:{machine.https} ",
        "listen 80;": f"listen 127.0.0.1:{free_port()};", "127.0.0.1:8001": f"127.0.0.1:{machine.web[0]}",
        "127.0.0.1:8002": f"127.0.0.1:{machine.web[1]}",
    }.items():  # fmt: skip
        assert old in conf
        conf = conf.replace(old, new)
    temporary = "".join(
        f"{each}_temp_path {machine.place}/{each};\n" for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    path = machine.place / "nginx.conf"
    path.write_text(
        f"pid {machine.place}/nginx.pid;\nerror_log stderr;\ndaemon off;\nmaster_process off;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{temporary}{conf}}}\n"
    )
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/bin")
    assert program is not None
    run(program, "-t", "-c", path, "-p", machine.place, "-e", "stderr")
    return Child([program, "-c", str(path), "-p", str(machine.place), "-e", "stderr"], log=machine.place / "nginx.log")


def is_ready(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code == OK
    except httpx.TransportError:
        return False


def test_the_steps_of_the_page_lead_to_a_console_behind_https(machine: Machine) -> None:
    prepare = machine.start("escapement-prepare.service")
    # at a boot the database may come later
    prepare.wait_for(says("waiting for the database: "), START_S, "prepare")
    machine.database.start()
    prepare.wait_for(says("created the first login"), START_S, "prepare")
    assert prepare.process.wait(START_S) == 0
    prepare.stop()
    running = [machine.start("escapement-broker.service"), machine.start("escapement-worker.service")]
    running += [machine.start("escapement-web@.service", str(port)) for port in machine.web]
    running.append(nginx(machine))
    try:
        for port in (*machine.web, int(machine.environment["ESCAPEMENT_BROKER_PORT"])):
            wait_until(lambda port=port: is_ready(f"http://127.0.0.1:{port}/readyz"), START_S)
        wait_until(lambda: is_ready(f"http://127.0.0.1:{machine.web[0]}/readyz?broker"), START_S)
        with Producer(namesrv=f"127.0.0.1:{machine.environment['ESCAPEMENT_NAMESRV_PORT']}") as producer:
            producer.send("orders", "later", delay_level=18)
        user, password = (machine.place / "var" / "first-login").read_text().split()
        with machine.browser() as browser:
            page = browser.get("/login/")
            assert page.status_code == OK
            assert "max-age" in page.headers["strict-transport-security"]
            form = {"username": user, "password": password, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
            entered = browser.post("/login/", data=form, headers={"Referer": f"https://{NAME}/login/"})
            assert entered.status_code == FOUND, entered.text[:500]
            assert set_own_password(browser, password, f"https://{NAME}/").status_code == SEE_OTHER
            wait_until(lambda: ">orders<" in browser.get("/topics/").text, START_S)
            assert browser.get("/metrics").status_code == 404
            # one of two web processes is gone: nobody notices
            assert running[2].stop() in ENDED
            assert {browser.get("/topics/").status_code for _ in range(6)} == {OK}
            # the broker is gone: the console lives, and says that it does not know
            assert running[0].stop() == 0
            wait_until(
                lambda: httpx.get(f"http://127.0.0.1:{machine.web[1]}/readyz?broker").status_code == UNAVAILABLE,
                START_S,
            )
            assert is_ready(f"http://127.0.0.1:{machine.web[1]}/readyz")
            assert browser.get("/topics/").status_code == OK
        assert running[1].stop() == 0
        assert running[3].stop() in ENDED
    finally:
        for each in running:
            each.kill()


def test_systemd_finds_no_fault_in_the_units_and_little_exposed(tmp_path: Path) -> None:
    for unit in UNITS:
        text = (DEPLOY / unit).read_text().replace("/opt/escapement/bin/escapement-console", "/bin/true")
        (tmp_path / unit).write_text(text)
    services = [str(tmp_path / unit) for unit in UNITS if unit.endswith(".service")]
    verified = subprocess.run(["systemd-analyze", "verify", *services], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    for service in services:
        rated = run("systemd-analyze", "security", "--offline=yes", "--threshold=25", service)
        assert "Overall exposure level" in rated


def test_a_restart_of_the_target_prepares_first() -> None:
    for unit in UNITS:
        assert not unit.endswith(".service") or lines_of(unit, "PartOf") == ["escapement.target"], unit
    for unit in ("escapement-web@.service", "escapement-worker.service"):
        assert "escapement-prepare.service" in lines_of(unit, "After")[0].split()


def test_every_process_of_the_page_is_one_that_the_console_serves(machine: Machine) -> None:
    words = [word for unit in UNITS if unit.endswith(".service") for word in lines_of(unit, "ExecStart")]
    assert {each.split()[1] for each in words} == {"serve", "prepare"}
    refused = subprocess.run(
        [machine.bin / "escapement-console", "serve", "nothing"], env=machine.environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert refused.returncode == 1
    assert "there are: broker, worker, web." in refused.stderr
