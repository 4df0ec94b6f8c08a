"""docs/TUTORIAL.md, followed from an empty directory with nothing but the wheel: each file, each command, each line."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.first_password import set_own_password
from tests.house.sources import ROOT
from tests.package.walkthrough import PATIENCE_S, Walk, blocks_of, lines_of_python
from tests.ports import free_port
from tests.waiting import until

PAGE = ROOT / "docs" / "TUTORIAL.md"
#: what a reader's shell has, and what pip needs to reach an index from here
KEPT = (
    "LANG",
    "TMPDIR",
    "SSL_CERT_FILE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
)


@pytest.fixture
def walk(wheel: Path, tmp_path: Path) -> Iterator[Walk]:
    (tmp_path / "wheels").mkdir()
    shutil.copy(wheel, tmp_path / "wheels")
    namesrv, broker, web = free_port(), free_port(), free_port()
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name in KEPT}
    env = {
        **pip, "HOME": str(tmp_path), "PATH": f"{Path(sys.base_prefix, 'bin')}:{os.defpath}", "PYTHONUNBUFFERED": "1",
        "ESCAPEMENT_WEB_PORT": str(web),
    }  # fmt: skip
    instead = {
        "127.0.0.1:9876": f"127.0.0.1:{namesrv}", "127.0.0.1:10911": f"127.0.0.1:{broker}",
        "127.0.0.1:8000": f"127.0.0.1:{web}",
    }  # fmt: skip
    walking = Walk(PAGE, tmp_path, env, instead=instead)
    walking.also["python -m escapement_mq broker"] = f" --port {broker} --namesrv-port {namesrv}"
    yield walking
    walking.kill()


def deliver_now(walk: Walk, topic: str, key: str) -> None:
    """What the page tells to do by hand in the console."""
    data = walk.place / ".local" / "share" / "escapement"
    (address,) = {here for there, here in walk.instead.items() if there.endswith(":8000")}
    name, password = (data / "first-login").read_text().split()
    with httpx.Client(base_url=f"http://{address}", follow_redirects=True, timeout=60) as browser:
        page = browser.get("/login/")
        token = browser.cookies["csrftoken"]
        form = {"username": name, "password": password, "csrfmiddlewaretoken": token}
        assert browser.post("/login/", data=form, headers={"referer": str(page.url)}).status_code == 200
        assert set_own_password(browser, password).status_code == 200
        assert browser.get("/timers/").status_code == 200

        matching = {"topic": topic, "key": key}
        until(lambda: "Deliver now" in browser.get("/timers/list/", params=matching).text, PATIENCE_S)
        form = {"csrfmiddlewaretoken": browser.cookies["csrftoken"], "kind": "timers.deliver_now", "scope": "matching"}
        looked = browser.post("/operations/draft/", data=form | matching, headers={"referer": str(page.url)})
        assert looked.status_code == 200
        form = {"csrfmiddlewaretoken": browser.cookies["csrftoken"], "reason": "to see it"}
        done = browser.post(f"{looked.url.path}confirm/", data=form, headers={"referer": str(looked.url)})
        assert done.status_code == 200


def test_the_tutorial_works_as_it_stands(walk: Walk) -> None:
    (last,) = (at for at, block in enumerate(walk.blocks) if "order 3: not paid" in block.text)
    walk.follow(walk.blocks[:last])
    deliver_now(walk, "unpaid", "3")
    walk.follow(walk.blocks[last:])
    assert walk.end() == dict.fromkeys(("fourth terminal", "third terminal", "second terminal"), 0)


def test_the_tutorial_counts_its_lines() -> None:
    (said,) = re.findall(r"You write (\d+) lines of Python", PAGE.read_text())
    assert int(said) == lines_of_python(blocks_of(PAGE))
