"""The console's lanes on each of the two brokers: what was parked there is what the pages say."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import pytest
from django.test import Client, override_settings

from broker.client import Admin, Producer, SendResult
from broker.mirror.follower import Mirror
from tests.console.people import browser_of, person
from tests.interop.servers import Server
from tests.interop.waiting import wait_until

LEVEL, PARKED = 16, 7
OTHER_LEVEL, OTHER_PARKED = 15, 3
RELEASED = 4
TOPIC = "ConsoleLanes"
LANE = "SCHEDULE_TOPIC_XXXX"


@pytest.fixture
def admin(server: Server) -> Iterator[Admin]:
    with Admin(server.namesrv) as one:
        yield one


@pytest.fixture(scope="module")
def kept() -> dict[str, list[SendResult]]:
    """What is parked on each broker: once for all tests of this file, so that counts are known."""
    return {}


@pytest.fixture
def parked(server: Server, admin: Admin, kept: dict[str, list[SendResult]]) -> list[SendResult]:
    """Messages that wait 30 minutes and an hour, and some that were released already."""
    if server.namesrv not in kept:
        with Producer("console-tests", server.namesrv) as producer:
            kept[server.namesrv] = [
                producer.send(TOPIC, f"wait {i}", keys=[f"key-{i}"], delay_level=LEVEL) for i in range(PARKED)
            ]
            for _ in range(OTHER_PARKED):
                producer.send(TOPIC, "wait longer", delay_level=OTHER_LEVEL)
            last = [producer.send(TOPIC, "soon", delay_level=1) for _ in range(RELEASED)][-1]
        assert wait_until(lambda: admin.delay_offsets().get(1, 0) > last.queue_offset)
    return kept[server.namesrv]


@pytest.fixture
def browser(transactional_db: None, server: Server, admin: Admin, parked: list[SendResult]) -> Iterator[Client]:
    """A signed-in browser on a console whose mirror has made one round."""
    with override_settings(ESCAPEMENT_NAMESRV=server.namesrv):
        mirror = Mirror(admin)
        mirror.run_once()
        mirror.close()
        yield browser_of(person("reader"))


def cells(page: str, row: str) -> list[str]:
    """The text of each cell of one table row."""
    found = re.search(rf'<tr id="{row}">(.*?)</tr>', page, re.DOTALL)
    assert found is not None
    return [text(cell) for cell in re.findall(r"<td.*?</td>", found[1], re.DOTALL)]


def text(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())


def test_lanes_show_what_waits(browser: Client) -> None:
    page = browser.get("/schedule/").content.decode()
    assert cells(page, f"lane-{LEVEL}")[1] == str(PARKED)
    assert cells(page, f"lane-{OTHER_LEVEL}")[1] == str(OTHER_PARKED)
    assert cells(page, "lane-1")[1] == "0"
    assert page.count('<tr id="lane-') == 18


def test_next_due_of_a_lane_is_that_of_its_first_message(browser: Client, admin: Admin) -> None:
    page = browser.get("/schedule/").content.decode()
    due_ms = admin.queue_entries(LANE, LEVEL - 1, 0, 1).entries[0].tags_code
    assert str(due_ms) in page


def test_lane_opens_into_its_messages_in_due_order(browser: Client, parked: list[SendResult]) -> None:
    page = browser.get(f"/schedule/{LEVEL}/").content.decode()
    rows = [cells(page, f"parked-{sent.queue_offset}") for sent in parked]
    assert [row[3] for row in rows] == [f"key-{i}" for i in range(PARKED)]
    assert all(row[2].startswith(TOPIC) for row in rows)


def test_parked_message_opens_from_its_lane(browser: Client) -> None:
    lane = browser.get(f"/schedule/{LEVEL}/").content.decode()
    link = re.search(r'href="(/messages/[^"]+)"', lane)
    assert link is not None
    answer = browser.get(html.unescape(link[1]))
    assert answer.status_code == 200
    assert TOPIC in answer.content.decode()
    assert LANE in answer.content.decode()
