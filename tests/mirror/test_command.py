"""`manage.py mirror`, and the mirror's tables in the Django admin."""

from __future__ import annotations

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
from tests.mirror.running import RunningBroker


def told(action: str) -> str:
    out = StringIO()
    call_command("mirror", action, stdout=out)
    return out.getvalue()


def test_once_rebuild_and_status(transactional_db: None, broker: RunningBroker, admin: Admin, settings: Any) -> None:
    settings.ESCAPEMENT_NAMESRV = broker.namesrv
    admin.create_topic("orders", queues=1)
    assert told("status") == ""
    assert told("once").startswith("sequence 1: ")
    assert Topic.objects.filter(name="orders").exists()
    assert "broker-a: sequence 1" in told("status")
    assert told("rebuild").startswith("sequence 1: ")
    assert MirrorState.objects.get().sequence == 1


def test_a_broker_that_is_away_is_said_in_a_sentence(transactional_db: None, settings: Any) -> None:
    settings.ESCAPEMENT_NAMESRV = "127.0.0.1:1"
    with pytest.raises(CommandError, match=r"127\.0\.0\.1:1"):
        told("once")


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
