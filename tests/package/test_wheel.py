"""The wheel in empty environments: what it brings, that it runs, and that it says what is missing."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.first_password import set_own_password
from tests.house.sources import ROOT
from tests.interop.process import Child
from tests.interop.servers import says
from tests.package.conftest import UV, Install, run
from tests.ports import free_port

START_S = 60
CONSOLE_S = 240
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)


def interpreters() -> list[str]:
    """Interpreters of this machine that are supported, by version; the one of these tests is one of them."""
    found = {f"3.{sys.version_info.minor}": sys.executable}
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in SUPPORTED:
        there = [str(path) for path in sorted(versions.glob(f"{version}.*/bin/python"))]
        at_hand = shutil.which(f"python{version}")
        if at_hand is not None and "shims" not in at_hand:
            there.append(at_hand)
        if there:
            found.setdefault(version, there[0])
    return list(found.values())


@pytest.fixture(scope="module")
def broker_python(install: Install) -> Path:
    return install("broker")


@pytest.fixture
def broker(broker_python: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a broker from the wheel."""
    command = [
        str(broker_python), "-I", "-m", "escapement_mq", "broker", "--store", str(tmp_path / "store"), "--port", "0",
        "--namesrv-port", "0",
    ]  # fmt: skip
    child = Child(command, log=tmp_path / "broker.log", cwd=tmp_path)
    try:
        line = child.wait_for(says("broker "), START_S, "the broker")
        yield line.split("name service ")[1].strip()
        assert child.stop() == 0
    finally:
        child.kill()


def test_the_client_stands_on_one_library(install: Install) -> None:
    python = install()
    listed = run(UV, "pip", "list", "--python", python, "--format", "freeze").split()
    assert sorted(each.partition("==")[0] for each in listed) == ["escapement-mq", "msgspec"]
    (packages,) = (python.parent.parent / "lib").glob("python*/site-packages")
    assert not {"broker", "console", "spark", "tests", "templates", "static"} & {
        path.name for path in packages.iterdir()
    }
    ask = "import escapement_mq as e, sys; print(e.Producer.__module__, sorted(set(e.__all__) - set(dir(e))))"
    assert run(python, "-I", "-c", ask, cwd=packages).strip() == "escapement_mq.client._sync_clients []"


def test_what_is_missing_is_said(install: Install) -> None:
    said = run(install(), "-I", "-m", "escapement_mq", "broker", "--store", "x", code=2)
    assert re.fullmatch(r"\w+ is not installed: pip install 'escapement-mq\[broker\]'\n", said)
    assert run(install(), "-I", "-m", "escapement_mq", "--version").startswith("escapement-mq 0.")
    assert "usage: python -m escapement_mq broker" in run(install(), "-I", "-m", "escapement_mq", "brokers", code=2)


@pytest.mark.parametrize("python", interpreters())
def test_the_example_of_the_readme_runs(install: Install, broker: str, python: str) -> None:
    (example,) = EXAMPLES
    assert "Producer(" in example
    assert "127.0.0.1:9876" in example
    interpreter = install("", python=python)
    run(interpreter, "-I", "-c", example.replace("127.0.0.1:9876", broker))
    ask = (
        "from escapement_mq import Admin\n"
        f"with Admin({broker!r}) as admin: print([each.schedule_key for each in admin.timers(0, 2**62).items])"
    )
    assert run(interpreter, "-I", "-c", ask).strip() == "['packet-17']"


@pytest.mark.parametrize("python", interpreters())
def test_every_module_of_client_and_broker_can_be_imported(install: Install, python: str) -> None:
    walk = (
        "import pkgutil, importlib, escapement_mq\n"
        "parts = ('client', 'engine', 'namesrv', 'redisson', 'rocketmq', 'server')\n"
        "for each in pkgutil.walk_packages(escapement_mq.__path__, 'escapement_mq.'):\n"
        "    if each.name.split('.')[1] in parts and not each.name.endswith(('__main__', '_make_faces')):\n"
        "        importlib.import_module(each.name)\n"
    )
    run(install("broker,redisson,tracing", python=python), "-I", "-W", "error::SyntaxWarning", "-c", walk)


def test_wheel_and_source_have_the_licence_and_nothing_of_the_tests(wheel: Path, dist: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    licences = {name.rpartition("/")[2] for name in names if "/licenses/" in name}
    assert licences >= {"LICENSE", "NOTICE"}
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"escapement_mq"}
    assert "escapement_mq/py.typed" in names
    assert "escapement_mq/console/locale/zh_Hans/LC_MESSAGES/django.mo" in names
    assert {f"escapement_mq/spark/queries/{name}.sql" for name in ("macros", "flow", "ledger")} <= set(names)
    assert not [name for name in names if "/tests/" in name or "__pycache__" in name]
    (source,) = dist.glob("escapement_mq-*.tar.gz")
    with tarfile.open(source) as archive:
        tops = {name.split("/")[1] for name in archive.getnames()}
    assert {"LICENSE", "NOTICE", "README.md", "hatch_build.py", "pyproject.toml", "broker"} <= tops
    assert not tops & {"tests", "bench", "var", ".venv"}


def test_the_console_runs_from_the_wheel(install: Install, tmp_path: Path) -> None:
    command = install("console").with_name("escapement-console")
    web = free_port()
    env = {
        "PATH": os.environ["PATH"], "HOME": str(tmp_path), "ESCAPEMENT_DEMO": "0", "ESCAPEMENT_WEB_PORT": str(web),
        "ESCAPEMENT_BROKER_PORT": str(free_port()), "ESCAPEMENT_NAMESRV_PORT": str(free_port()),
    }  # fmt: skip
    only = [f"{name}={value}" for name, value in env.items()]
    child = Child(["env", "-i", *only, str(command), "run"], log=tmp_path / "run.log", cwd=tmp_path)
    try:
        child.wait_for(says("         run | Ctrl-C stops"), CONSOLE_S, "the console")
        data = tmp_path / ".local" / "share" / "escapement"
        name, password = (data / "first-login").read_text().split()
        with httpx.Client(base_url=f"http://127.0.0.1:{web}", follow_redirects=True) as browser:
            assert browser.get("/readyz").status_code == 200
            page = browser.get("/login/")
            form = {"username": name, "password": password, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
            page = browser.post("/login/", data=form, headers={"referer": str(page.url)})
            assert page.url.path == "/account/password/"
            assert set_own_password(browser, password).status_code == 200
            for address in ("/", "/schedule/", "/timers/", "/topics/", "/static/css/console.css", "/api/docs"):
                assert browser.get(address).status_code == 200, address
        assert child.stop() == 0
    finally:
        child.kill()
