"""`make run` as a newcomer meets it: one command, a console to log in to, Ctrl-C, and everything back afterwards."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import httpx
import psutil
import psycopg
import pytest
import redis

from broker.client import Admin, Producer
from console.run.addresses import answers
from tests.first_password import OWN, set_own_password
from tests.ports import free_port
from tests.waiting import until

ROOT = Path(__file__).parents[2]
START_S = 120.0
STOP_S = 60.0
#: Started last, stopped first.
STOP_ORDER = ["web", "worker", "broker", "valkey", "postgres"]


class Home:
    """One `var/` with its ports, and `make` in it."""

    def __init__(self, var: Path) -> None:
        names = ("WEB", "BROKER", "NAMESRV", "VALKEY")
        self.var = var
        self.ports = {name: free_port() for name in names}
        self.environment = {
            name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")
        }
        self.environment |= {f"ESCAPEMENT_{name}_PORT": str(port) for name, port in self.ports.items()}
        self.environment |= {"ESCAPEMENT_VAR": str(var), "ESCAPEMENT_DEMO": "0"}
        self.lines: list[str] = []
        #: name and password of the first login, which its file no longer has once the password was changed
        self.login: tuple[str, str] | None = None

    @property
    def console(self) -> str:
        return f"http://127.0.0.1:{self.ports['WEB']}"

    @property
    def namesrv(self) -> str:
        return f"127.0.0.1:{self.ports['NAMESRV']}"

    def make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["make", *arguments], cwd=ROOT, env=self.environment, text=True, capture_output=True, check=False
        )

    def run(self) -> None:
        """`make run` in a terminal of its own; returns when it has told the console's address."""
        self.lines = []
        self.process = subprocess.Popen(
            ["make", "run"],
            cwd=ROOT,
            env=self.environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        greeted = threading.Event()
        self._reader = threading.Thread(target=self._read, args=[greeted], daemon=True)
        self._reader.start()
        assert greeted.wait(START_S), "\n".join(self.lines)
        assert self.process.poll() is None, "\n".join(self.lines)

    def press_ctrl_c(self) -> float:
        """What a terminal does: SIGINT to the whole foreground group. Returns how many seconds the end took."""
        began_s = monotonic()
        os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(STOP_S)
        self._reader.join(STOP_S)
        return monotonic() - began_s

    def _read(self, greeted: threading.Event) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip("\n"))
                if "Ctrl-C stops everything" in line:
                    greeted.set()
        greeted.set()


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with tempfile.TemporaryDirectory(prefix="escapement-home-", ignore_cleanup_errors=True) as directory:
        home = Home(Path(directory) / "var")
        home.run()
        yield home
        if home.process.poll() is None:
            home.press_ctrl_c()


def first_login_of(home: Home) -> tuple[str, str]:
    user, password = (home.var / "first-login").read_text().split()
    return user, password


def log_in(home: Home) -> httpx.Response:
    user, password = home.login = home.login or first_login_of(home)
    with httpx.Client(base_url=home.console, follow_redirects=True) as browser:
        form = browser.get("/")
        token = browser.cookies["csrftoken"]
        assert form.url.path == "/login/"
        fields = {"username": user, "password": password, "csrfmiddlewaretoken": token, "next": "/"}
        page = browser.post(str(form.url), data=fields, headers={"Referer": str(form.url)})
        if page.url.path == "/account/password/":
            return set_own_password(browser, password)
        # it was changed before
        fields |= {"password": OWN, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
        return browser.post(str(form.url), data=fields, headers={"Referer": str(form.url)})


def test_what_runs_comes_to_the_database_by_roles_that_own_nothing(home: Home) -> None:
    """The audit is written once, also for who has the passwords of everything that runs."""
    by = {name: (home.var / name).read_text().strip() for name in ("database-url", "database-spark-url")}
    with psycopg.connect(by["database-url"], autocommit=True) as application:
        running = "SELECT DISTINCT usename FROM pg_stat_activity WHERE backend_type = 'client backend'"
        assert application.execute(running).fetchall() == [("escapement",)]
        assert application.execute("SELECT count(*) > 0 FROM console_auditentry").fetchone() == (True,)
        for statement in ("UPDATE console_auditentry SET actor = 'nobody'", "DELETE FROM console_auditentry"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                application.execute(statement)
    with psycopg.connect(by["database-spark-url"], autocommit=True) as spark:
        for table in ("auth_user", "console_apitoken", "django_session"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                spark.execute(f"TABLE {table}")


def test_the_first_login_opens_the_console(home: Home) -> None:
    user, password = first_login_of(home)
    assert oct((home.var / "first-login").stat().st_mode & 0o777) == "0o600"
    assert any(re.search(rf"log in +{user} / {password} +\(said this once, kept in ", line) for line in home.lines)
    page = log_in(home)
    assert (page.status_code, page.url.path) == (200, "/")
    # that password is not the account's any more
    assert not (home.var / "first-login").exists()
    shown = re.findall(r'<th scope="row" class="mono">([a-z-]+)</th>', page.text)
    assert shown == STOP_ORDER[::-1]


def test_the_console_says_that_it_is_well(home: Home) -> None:
    assert httpx.get(f"{home.console}/healthz").status_code == 200


def test_pages_may_load_only_from_here(home: Home) -> None:
    policy = httpx.get(f"{home.console}/login/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_rest_has_its_own_room(home: Home) -> None:
    answer = httpx.get(f"{home.console}/api/v1/topics")
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_database_address_is_one_that_answers(home: Home) -> None:
    address = home.make("-s", "database-url").stdout.strip()
    with psycopg.connect(address) as connection:
        assert connection.execute("select count(*) from auth_user").fetchone() == (1,)


def test_the_database_needs_its_password(home: Home) -> None:
    address = home.make("-s", "database-url").stdout.strip()
    without = re.sub(r":[^:@/]+@", "@", address)
    assert without != address
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(without)


def test_the_redis_address_is_on_loopback_and_needs_its_password(home: Home) -> None:
    address = home.make("-s", "redis-url").stdout.strip()
    client = redis.Redis.from_url(address)
    stranger = redis.Redis(port=home.ports["VALKEY"])
    try:
        assert client.ping()
        with pytest.raises(redis.AuthenticationError):
            stranger.ping()
    finally:
        client.close()
        stranger.close()


def test_secrets_are_for_their_owner_only(home: Home) -> None:
    kept = [
        "postgres-password",
        "secret-key",
        "database-url",
        "redis-url",
        "valkey/password",
        "valkey/valkey.conf",
    ]
    assert {name: oct((home.var / name).stat().st_mode & 0o777) for name in kept} == dict.fromkeys(kept, "0o600")


def test_everything_it_leaves_is_for_its_user_only(home: Home) -> None:
    send_what_the_readme_sends(home)
    made = [each for each in home.var.rglob("*") if not each.is_symlink() and not each.is_socket()]
    assert {each.relative_to(home.var).parts[0] for each in made} >= {"log", "store", "valkey", "secret-key"}
    assert [each for each in (home.var, *made) if each.stat().st_mode & 0o077] == []


def test_a_second_run_in_the_same_place_is_refused(home: Home) -> None:
    second = home.make("run")
    assert second.returncode != 0
    assert "Another `make run` already uses" in second.stderr


def test_a_taken_port_is_named(home: Home, tmp_path: Path) -> None:
    elsewhere = Home(tmp_path / "var")
    elsewhere.environment["ESCAPEMENT_WEB_PORT"] = str(home.ports["WEB"])
    refused = elsewhere.make("run")
    assert refused.returncode != 0
    assert f"Port {home.ports['WEB']} on 127.0.0.1" in refused.stderr
    assert "ESCAPEMENT_WEB_PORT" in refused.stderr


def test_what_is_sent_appears_in_the_mirror(home: Home) -> None:
    send_what_the_readme_sends(home)
    with psycopg.connect(home.make("-s", "database-url").stdout.strip(), autocommit=True) as connection:
        until(lambda: connection.execute("select 1 from broker_topic where name = 'orders'").fetchone() == (1,))


def test_a_killed_broker_is_back_with_what_it_had_answered(home: Home) -> None:
    with Producer(group="shop", namesrv=home.namesrv) as producer:
        message_id = producer.send("orders", b"answered").offset_message_id
    children = psutil.Process(home.process.pid).children(recursive=True)
    next(child for child in children if "--engine" in child.cmdline()).kill()
    until(lambda: any(line.endswith("| started again") for line in home.lines))
    until(lambda: answers("127.0.0.1", home.ports["BROKER"]) and answers("127.0.0.1", home.ports["NAMESRV"]))
    with Admin(home.namesrv) as admin:
        assert admin.message_by_offset_id(message_id).body == b"answered"


def test_ctrl_c_stops_in_order_and_a_second_run_has_all_data(home: Home) -> None:
    send_what_the_readme_sends(home)
    assert log_in(home).status_code == 200
    home.press_ctrl_c()
    stopped = [line.split("|")[0].strip() for line in home.lines if line.endswith("| stopped")]
    assert stopped == STOP_ORDER
    assert not any(answers("127.0.0.1", port) for port in home.ports.values())
    home.run()
    assert log_in(home).status_code == 200
    assert home.login is not None
    assert [line for line in home.lines if home.login[1] in line] == []
    assert [line for line in home.lines if "log in    as before" in line]
    with Admin(home.namesrv) as admin:
        assert "orders" in {topic.name for topic in admin.topics()}


def send_what_the_readme_sends(home: Home) -> None:
    """The Python of README.md as it is there, but for the port."""
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    exec(code.replace("127.0.0.1:9876", home.namesrv), {})  # noqa: S102 - our own README
