"""The page of a broker: what it says first, its settings under their headings, limits, name services, clients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from broker.engine.config import EngineConfig
from broker.rocketmq.codes import Request
from broker.server.processors.settings import CHANGEABLE, BadSetting, changed
from console.features.brokers.catalogue import KNOWN, Heading, is_secret
from console.features.brokers.read import client_kinds, grouped, read_broker, read_brokers, rooms_of
from console.features.brokers.shapes import HIDDEN, NameService, Room, SettingRow, setting_row
from console.features.clients import read_clients
from console.operations.errors import InvalidParameter
from console.site.chosen import choice_of, choosing
from tests.console.clients.test_clients import connected
from tests.console.several import A, B, Several
from tests.console.stage import Stage
from tests.console.ui.test_pages import words
from tests.server.frames import recorded_exchanges


def rows() -> dict[str, SettingRow]:
    return {row.name: row for row in read_broker().rows}


def test_the_page_says_what_the_broker_is_and_that_it_is_well(stage: Stage, operator: Client) -> None:
    stage.producer.send("orders", "x")
    stage.mirror.run_once()
    page = words(operator.get("/broker/"))
    assert "It is running, and nothing is near a limit." in page
    for part in ("broker-a", stage.broker.address, "Running since", "File descriptors", "Oldest message"):
        assert part in page
    assert "fileReservedTime For how long messages are kept. 72 h" in page


def test_every_setting_stands_under_a_heading_with_its_default(stage: Stage) -> None:
    found = rows()
    assert set(stage.admin.broker_config()) < set(found)
    assert [row.name for row in found.values() if not row.meaning] == []
    assert [row.name for row in found.values() if row.default is None] == []
    assert {row.heading for row in found.values()} == {heading.value for heading in Heading}
    assert {row.name for row in found.values() if row.has_field} == set(CHANGEABLE)
    assert (found["fileReservedTime"].is_changed, found["fileReservedTime"].is_kept) == (False, False)
    stage.admin.change_broker_settings({"fileReservedTime": "50"})
    kept = rows()["fileReservedTime"]
    assert (kept.value, kept.default, kept.is_changed, kept.is_kept) == ("50", "72", True, True)


def test_limits_and_name_services_are_told(stage: Stage) -> None:
    page = read_broker()
    rooms = {str(room.what): room for room in page.rooms}
    assert set(rooms) >= {"connections", "descriptors", "memory", "disk", "topics"}
    for what in ("connections", "descriptors", "memory", "disk"):
        ratio = rooms[what].ratio
        assert ratio is not None
        assert 0 < ratio < 1
    assert rooms["disk"].limit == 0.9
    (own,) = page.name_services
    assert (own.address, own.answers, own.lists) == (stage.broker.namesrv, True, True)


def test_a_name_service_that_does_not_answer_is_what_the_page_begins_with(
    stage: Stage, settings: Any, operator: Client
) -> None:
    settings.ESCAPEMENT_NAMESRV = f"{stage.broker.namesrv};127.0.0.1:1"
    page = words(operator.get("/broker/"))
    assert "The name service 127.0.0.1:1 does not respond." in page
    away = read_broker().name_services[1]
    assert (away.answers, away.lists) == (False, None)


def test_clients_are_counted_once_by_role_language_and_version(stage: Stage, operator: Client) -> None:
    with connected(stage, "c1@7"), connected(stage, "c2@8", "wages"):
        kinds = {(kind.role.value, kind.language): kind for kind in client_kinds(read_clients().rows)}
        assert (kinds["consumer", "PYTHON"].count, kinds["consumer", "PYTHON"].groups) == (2, ("billing", "wages"))
        page = operator.get("/broker/").content.decode()
        assert 'href="/groups/billing/"' in page
        assert 'href="/clients/?search=producers&amp;role=producer"' in page


def test_a_broker_that_does_not_answer_is_shown_as_it_was(stage: Stage, operator: Client) -> None:
    stage.broker.stop()
    page = words(operator.get("/broker/"))
    assert "Not known now: the broker does not respond." in page
    assert "Unknown now" in page


def test_of_several_brokers_all_are_listed_and_each_has_its_page(brokers: Several, operator: Client) -> None:
    answer = operator.get("/broker/")
    assert "All 2 brokers are running." in words(answer)
    assert f'href="/at/{B}/broker/"' in answer.content.decode()
    assert words(operator.get(f"/at/{B}/broker/")).count(B) > 1
    brokers.kill(B)
    assert f"{B} does not respond." in words(operator.get("/broker/"))
    assert [(row.is_stale, row.topics, row.members) for row in read_brokers().rows] == [(False, 1, 0), (True, 1, 0)]
    with choosing(choice_of(A)):
        assert read_broker().row is not None


def test_it_asks_the_database_few_questions(brokers: Several, operator: Client) -> None:
    for address in ("/broker/", f"/at/{A}/broker/"):
        with CaptureQueriesContext(connection) as asked:
            assert operator.get(address).status_code == 200
        assert len(asked) <= 16, [query["sql"][:120] for query in asked]


def verdicts(stage: Stage, **parts: Any) -> str:
    page = read_broker()
    assert page.row is not None
    state = parts.pop("state", "OK")
    return str(replace(page, row=replace(page.row, state=state, reasons=("a reason",)), **parts).verdict.words)


def test_the_worst_comes_first(stage: Stage) -> None:
    full = (Room("disk", 85, 100, 0.9), Room("topics", 10**9, None))
    lost = (NameService("n:1", is_registered=False, answers=None, lists=None),)
    assert verdicts(stage, state="READONLY", rooms=full) == "It accepts no messages."
    assert verdicts(stage, state="DEGRADED", rooms=full).startswith("It accepts messages, and something")
    assert verdicts(stage, rooms=full, name_services=lost) == "Its disk is nearly full: 85 %."
    assert verdicts(stage, rooms=(), name_services=lost) == "The name service n:1 does not list it."
    assert verdicts(stage).startswith("It is running")


def test_apaches_settings_are_shown_as_they_are() -> None:
    _, real = recorded_exchanges(Request.GET_BROKER_CONFIG)[0]
    text = real.frame[8 + int.from_bytes(real.frame[5:8], "big") :].decode()
    pairs = [line.split("=", 1) for line in text.splitlines()]
    told = [setting_row(name, value, None, None, None) for name, value in pairs]
    found = {group.heading: {row.name: row for row in group.rows} for group in grouped(told)}
    assert sum(map(len, found.values())) == len(told) > 400
    assert found[Heading.OTHER]["accessMessageInMemoryHotRatio"].value == "26"
    assert not found[Heading.OTHER]["accessMessageInMemoryHotRatio"].has_field
    kept = found[Heading.RETENTION]["fileReservedTime"]
    assert (kept.value, kept.default, kept.is_changed, kept.has_field) == ("48", None, False, True)
    assert found[Heading.RETENTION]["deleteWhen"].has_field
    assert found[Heading.SECURITY]["aclEnable"].value == "false"


@pytest.mark.parametrize(
    ("told", "used", "most"),
    [
        ({"commitLogDirCapacity": "Total : 4.0 GiB, Free : 1.0 GiB."}, 3 << 30, 4 << 30),
        ({"commitLogDirCapacity": "Total : 512.5 MiB, Free : 512.5 MiB."}, 0, 537395200),
        ({"diskMaxBytes": "100", "diskFreeBytes": "40"}, 60, 100),
    ],
)
def test_the_disk_is_known_of_both_brokers(told: dict[str, str], used: int, most: int) -> None:
    (disk,) = [room for room in rooms_of({"diskMaxUsedSpaceRatio": "75"}, told, 3) if room.what == "disk"]
    assert (disk.used, disk.most, disk.limit) == (used, most, 0.75)


@pytest.mark.parametrize("name", ["sslPassword", "metricsGrpcExporterHeader", "accessKeySecret", "authToken"])
def test_what_may_be_a_secret_is_not_shown(name: str) -> None:
    row = setting_row(name, "hunter2", "hunter1", "hunter0", "any")
    assert (row.value, row.default, row.started, row.text, row.has_field) == (HIDDEN, None, None, "", False)
    assert is_secret(name)


@pytest.mark.parametrize("name", CHANGEABLE)
def test_the_bounds_of_the_form_are_the_brokers(name: str) -> None:
    known, config = KNOWN[name], EngineConfig(root="/store")
    if known.is_flag:
        good, bad = ["true", "false"], ["yes", "1"]
    else:
        assert known.low is not None
        low = f"{known.low}.5" if known.is_fraction else str(known.low)
        good, bad = [low, str(known.high)], [str(known.high + 1), "x", str(known.low - (not known.is_fraction))]
    for value in good:
        changed(config, {name: known.checked(name, value)})
    for value in bad:
        with pytest.raises(InvalidParameter):
            known.checked(name, value)
        with pytest.raises(BadSetting):
            changed(config, {name: value})


@pytest.mark.parametrize(("given", "kept"), [("04", "04"), ("04;16", "04;16"), (" 23 ", "23")])
def test_hours_of_a_day_are_read(given: str, kept: str) -> None:
    assert KNOWN["deleteWhen"].checked("deleteWhen", given) == kept


@pytest.mark.parametrize("given", ["4", "24", "", "04,16", "04;"])
def test_other_hours_are_refused(given: str) -> None:
    with pytest.raises(InvalidParameter):
        KNOWN["deleteWhen"].checked("deleteWhen", given)
