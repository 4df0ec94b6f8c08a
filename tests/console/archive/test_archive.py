"""The archive from the console: its page and its command, over segments that are really archived."""

from __future__ import annotations

import csv
import io
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from broker.rocketmq.properties import UNIQUE_KEY
from console.features.archive import asking, pages
from console.security.models import MaskRule, TopicPermission
from console.site import child_processes
from console.site.celery import app
from tests.console.people import browser_of, person
from tests.console.ui.test_pages import words
from tests.spark.plain import messages
from tests.spark.randomlog import SIZE, RandomLog
from tests.watching import Calls

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def log() -> RandomLog:
    """Two closed segments and one that is written; a message with a hostile key is among them."""
    random = RandomLog(7)
    random.write("orders", {"UNIQ_KEY": "K-hostile", "KEYS": HOSTILE, "TAGS": "<b>"})
    found = random.fill(800)
    assert len(found.segments) == 3
    return found


@pytest.fixture
def house(tmp_path: Path, log: RandomLog, settings: Any, transactional_db: None) -> Path:
    """A house whose broker has that log, and which archives it."""
    store = tmp_path / "store"
    (store / "commitlog").mkdir(parents=True)
    for start, data in log.segments.items():
        (store / "commitlog" / f"{start:020d}").write_bytes(data)
    settings.BROKER_STORE, settings.OTHER_STORES = store, {}
    settings.ARCHIVE_DIR, settings.ARCHIVE_DAYS = tmp_path / "archive", 36_500.0
    return store


def said(*arguments: str) -> str:
    out = StringIO()
    call_command("archive", *arguments, stdout=out, stderr=out)
    return out.getvalue()


def test_its_task_archives_what_is_closed_and_the_page_says_so(house: Path, operator: Client) -> None:
    assert "Nothing is archived yet" in words(operator.get("/archive/"))
    app.tasks["console.keep_archive"].apply(throw=True)
    shown = words(operator.get("/archive/"))
    assert "broker-a" in shown and f"{len(asking.listed())}" == "1"
    (listed,) = asking.listed()
    assert (listed["segments"], listed["end"]) == (2, 2 * SIZE) and f"{listed['records']:,}" in shown


def test_a_message_that_the_broker_has_no_more_is_found_with_what_became_of_it(
    house: Path, log: RandomLog, operator: Client
) -> None:
    assert "2 segments archived" in said("keep") and "0 segments archived" in said("keep")
    (house / "commitlog" / f"{0:020d}").unlink()
    there = {one.position: one for one in messages(log.segments) if one.position < 2 * SIZE}
    timer, ended = next(
        (there[at], one)
        for one in there.values()
        if (at := int(one.properties.get("ESC_CANCELS", -1))) in there and there[at].topic == "rmq_sys_wheel_timer"
    )
    key = timer.properties[UNIQUE_KEY]
    shown = words(operator.get("/archive/", {"q": key}))
    assert "timer" in shown and "cancelled" in shown and key in shown
    found = said("find", key)
    assert f"[broker-a {timer.position}]" in found and f"[broker-a {ended.position}]" in found
    (line, *_) = said("find", key, "--json").splitlines()
    assert json.loads(line)["position"] == timer.position and UNIQUE_KEY in dict(json.loads(line)["properties"])
    rows = list(csv.DictReader(io.StringIO(b"".join(operator.get("/archive/", {"q": key, "as": "csv"})).decode())))
    assert str(ended.position) in {row["position"] for row in rows}
    assert str(timer.position) in {row["ends_position"] for row in rows}
    assert "No archived record matches." in words(operator.get("/archive/", {"q": "nobody"}))
    assert "No archived record matches." in said("find", "nobody")


def test_what_senders_wrote_is_text(house: Path, operator: Client) -> None:
    said("keep")
    page = operator.get("/archive/", {"q": HOSTILE})
    assert HOSTILE.encode() not in page.content and HOSTILE in words(page) and "K-hostile" in words(page)
    assert page.headers["Cache-Control"] == "no-store"


def test_who_sees_some_topics_finds_those_and_rules_mask_them(house: Path, log: RandomLog) -> None:
    said("keep")
    reader = person("reader")
    group = Group.objects.create(name="team")
    reader.groups.add(group)
    TopicPermission.objects.create(group=group, pattern="seats")
    MaskRule.objects.create(prefix="seats", fields="KEYS", why="personal")
    page = browser_of(reader).get("/archive/", {"q": "order-1"})
    topics = {row.topic for row in page.context["data"].rows}
    assert topics == {"seats"} and "masked: personal" in words(page)
    assert {key for row in page.context["data"].rows for key in row.keys} == {"•••• masked: personal"}


def test_what_somebody_sees_is_not_hidden_behind_what_others_have(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said("keep")
    monkeypatch.setattr(pages, "LIMIT", 5)
    reader = person("reader")
    group = Group.objects.create(name="team")
    reader.groups.add(group)
    TopicPermission.objects.create(group=group, pattern="sea*")
    page = browser_of(reader).get("/archive/", {"q": "order-1"})
    assert [row.topic for row in page.context["data"].rows] == ["seats"] * 5 and page.context["data"].is_cut
    TopicPermission.objects.update(pattern="seats")
    assert len(browser_of(reader).get("/archive/", {"q": "order-1"}).context["data"].rows) == 5


def test_without_an_archive_the_page_says_how_to_have_one(house: Path, settings: Any, operator: Client) -> None:
    settings.ARCHIVE_DAYS = 0
    shown = words(operator.get("/archive/", {"q": "x"}))
    assert "ESCAPEMENT_ARCHIVE_DAYS" in shown
    with pytest.raises(CommandError, match="ESCAPEMENT_ARCHIVE_DAYS"):
        said("keep")
    assert "Search the archive" not in words(operator.get("/messages/"))
    settings.ARCHIVE_DAYS = 1
    said("keep")
    assert "Search the archive" in words(operator.get("/messages/", {"q": "a key"}))


def test_what_is_wrong_is_said(house: Path, operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    said("keep")
    page = operator.get("/archive/", {"q": "order-1", "from": "yesterday, perhaps"})
    assert page.status_code == 422 and not page.context["data"].rows
    with pytest.raises(CommandError):
        said("find", "order-1", "--from", "yesterday, perhaps")
    (file, *_) = sorted(asking.settings.ARCHIVE_DIR.glob("*/*.parquet"))
    file.write_bytes(file.read_bytes()[:-50])
    shown = words(operator.get("/archive/", {"q": "order-1"}))
    assert "Files that cannot be read were left out" in shown and file.name in shown
    assert "unreadable" in said("list")
    with pytest.raises(CommandError, match="Restore the damaged files"):
        said("check")
    with pages._searching:
        assert "Somebody else searches" in words(operator.get("/archive/", {"q": "order-1"}))
    monkeypatch.setattr(asking, "_MODULE", "spark.nothing_of_that_name")
    assert "exited without a message" in words(operator.get("/archive/", {"q": "order-1"}))


def test_ctrl_c_ends_it(house: Path) -> None:
    def press(_: object) -> None:
        raise KeyboardInterrupt

    with Calls(child_processes._give, before=press):
        assert said("keep") == "stopped\n"
    assert "2 segments archived" in said("keep")


def test_too_old_files_go(house: Path, settings: Any) -> None:
    said("keep")
    settings.ARCHIVE_DAYS = 0.5  # the log ends on 2026-11-25
    assert said("keep") == "broker-a: 0 segments archived\n" and "of 2 segments" in said("list")
    for start in (0, SIZE):
        (house / "commitlog" / f"{start:020d}").unlink()
    assert "2 files removed that were too old" in said("keep") and said("list") == "nothing is archived\n"
