"""The console's page of a broker on each of the two: what it shows, and settings changed there and put back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client, override_settings

from broker.client import Admin
from broker.mirror.follower import Mirror
from console.features.brokers.catalogue import KNOWN, Heading
from console.features.brokers.read import read_broker
from console.operations import workflow
from console.operations.actor import PERMISSIONS, Actor
from console.site.broker import hang_up
from tests.console.people import browser_of, person
from tests.interop.servers import Server

ACTOR = Actor("token shop", frozenset(PERMISSIONS))
KIND = "brokers.configure"


@pytest.fixture
def admin(server: Server) -> Iterator[Admin]:
    with Admin(server.namesrv) as one:
        yield one


@pytest.fixture
def browser(transactional_db: None, server: Server, admin: Admin) -> Iterator[Client]:
    with override_settings(ESCAPEMENT_NAMESRV=server.namesrv):
        mirror = Mirror(admin)
        mirror.run_once()
        mirror.close()
        yield browser_of(person("reader"))
    hang_up()


def test_the_page_shows_every_setting_that_the_broker_tells(browser: Client, admin: Admin) -> None:
    told = admin.broker_config()
    page = read_broker()
    assert set(told) <= {row.name for row in page.rows}
    unknown = {row.name for row in page.rows if row.name not in KNOWN}
    assert {row.heading for row in page.rows if row.name in unknown} <= {Heading.OTHER.value}
    assert bool(unknown) == page.is_apache
    (names,) = page.name_services
    assert (names.answers, names.lists) == (True, True)
    answer = browser.get("/broker/")
    assert answer.status_code == 200
    assert "fileReservedTime" in answer.content.decode()


def test_settings_are_changed_and_put_back(browser: Client, admin: Admin) -> None:
    before = admin.broker_config()
    wanted = {"fileReservedTime": "31", "transactionCheckMax": 9, "autoCreateTopicEnable": False}
    row = workflow.start(KIND, {"settings": wanted}, ACTOR, reason="because")
    assert (row.error, row.results) == ("", {"changed": 1})
    now = admin.broker_config()
    changed = {"fileReservedTime": "31", "transactionCheckMax": "9", "autoCreateTopicEnable": "false"}
    assert now == {**before, **changed}
    label = row.items.get().label
    back = {"settings": label["before"], "expected": label["after"]}
    assert workflow.start(KIND, back, ACTOR, reason="because").results == {"changed": 1}
    assert admin.broker_config() == before


def test_the_bounds_hold_what_the_broker_has(browser: Client) -> None:
    """A form that is sent as it was drawn would be taken."""
    for row in read_broker().fields:
        assert row.known.checked(row.name, row.value) == row.value


def test_what_the_broker_did_not_take_is_told(browser: Client, admin: Admin) -> None:
    before = admin.broker_config()
    wanted = {"fileReservedTime": "1.5", "transactionCheckMax": "7"}
    row = workflow.start(KIND, {"settings": wanted}, ACTOR, reason="because")
    if read_broker().is_apache:
        assert row.results == {"refused": 1}
        assert "did not take fileReservedTime" in row.items.get().result["error"]
        assert admin.broker_config() == before
    else:
        assert row.results == {"changed": 1}
        workflow.start(KIND, {"settings": {name: before[name] for name in wanted}}, ACTOR, reason="because")
