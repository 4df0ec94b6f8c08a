"""`manage.py mirror`, and the mirror's tables in the Django admin."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.contrib import admin as django_admin
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from broker.client import Admin
from broker.mirror.models import MirrorRow, MirrorState, Topic
from tests.cluster import Cluster
from tests.mirror.running import RunningBroker


def told(*words: str) -> str:
    out = StringIO()
    call_command("mirror", *words, stdout=out)
    return out.getvalue()


def test_once_rebuild_and_status(transactional_db: None, broker: RunningBroker, admin: Admin, settings: Any) -> None:
    settings.ESCAPEMENT_NAMESRV = broker.namesrv
    admin.create_topic("orders", queues=1)
    assert told("status") == ""
    assert told("once").startswith("broker-a: sequence 1: ")
    assert Topic.objects.filter(name="orders").exists()
    assert "broker-a: sequence 1" in told("status")
    assert told("rebuild").startswith("broker-a: sequence 1: ")
    assert MirrorState.objects.get().sequence == 1


def test_a_broker_that_is_away_is_said_in_a_sentence(transactional_db: None, settings: Any) -> None:
    settings.ESCAPEMENT_NAMESRV = "127.0.0.1:1"
    with pytest.raises(CommandError, match=r"127\.0\.0\.1:1"):
        told("once")


@pytest.fixture
def cluster(transactional_db: None, settings: Any) -> Iterator[Cluster]:
    with Cluster(2) as running:
        settings.ESCAPEMENT_NAMESRV = running.namesrv
        yield running


def test_all_brokers_or_one(cluster: Cluster, settings: Any) -> None:
    assert told("once", "--broker", "broker-b").startswith("broker-b: sequence 1: ")
    assert told("status").count("\n") == 1
    assert [line.partition(":")[0] for line in told("once").splitlines()] == ["broker-a", "broker-b"]
    assert told("status", "--broker", "broker-a").startswith("broker-a: ")
    with Cluster(1) as other:
        settings.ESCAPEMENT_CLUSTERS = {"other": other.namesrv}
        assert "other/broker-a: sequence 1: " in told("once")
        assert told("rebuild", "--broker", "other/broker-a").startswith("other/broker-a: sequence 1: ")
    with pytest.raises(CommandError, match="no cluster 'third'"):
        told("once", "--broker", "third/broker-a")


def test_one_that_is_away_keeps_no_other_from_being_read(cluster: Cluster) -> None:
    told("once")
    cluster["broker-a"].stop()
    with pytest.raises(CommandError, match="broker-a: "):
        told("once")
    assert MirrorState.objects.get(broker="broker-b").sequence == 2


def test_only_what_is_listed_no_more_is_forgotten(cluster: Cluster) -> None:
    told("once")
    with pytest.raises(CommandError, match="stop that broker first"):
        told("forget", "broker-b")
    cluster.delist("broker-b")
    assert told("forget", "broker-b") == "broker-b: forgotten\n"
    assert list(MirrorState.objects.values_list("broker", flat=True)) == ["broker-a"]
    with pytest.raises(CommandError, match="no rows of a broker broker-b"):
        told("forget", "broker-b")
    for words in (("forget",), ("once", "broker-a")):
        with pytest.raises(CommandError, match="Say which broker"):
            told(*words)


TABLES = [model for model in django_admin.site._registry if issubclass(model, MirrorRow)]


def test_every_mirror_table_is_in_the_admin() -> None:
    assert set(TABLES) == set(MirrorRow.__subclasses__())


@pytest.mark.parametrize("model", TABLES)
def test_the_admin_shows_and_never_writes(
    transactional_db: None, broker: RunningBroker, admin: Admin, settings: Any, model: type[MirrorRow]
) -> None:
    settings.ESCAPEMENT_NAMESRV = broker.namesrv
    told("once")
    browser = Client()
    browser.force_login(get_user_model().objects.create_superuser("root", password="a long secret"))
    place = f"admin:{model._meta.app_label}_{model._meta.model_name}"
    assert browser.get(reverse(f"{place}_changelist")).status_code == 200
    assert browser.post(reverse(f"{place}_add"), {}).status_code == 403
    row = model.objects.first()
    if row is not None:
        assert browser.get(reverse(f"{place}_change", args=[row.pk])).status_code == 200
        assert browser.post(reverse(f"{place}_change", args=[row.pk]), {"name": "x"}).status_code == 403
        assert browser.post(reverse(f"{place}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
