"""What TASKS may say, and what Django's system checks say of the rest."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from broker.tasks import EscapementBackend
from broker.tasks.framework import task_backends
from broker.testing import BrokerThread
from tests.tasks.conftest import tasks


def faults(settings: Any, queues: list[str] | None = None, **options: Any) -> list[str]:
    settings.TASKS = {"default": {**tasks(**options)["default"], "QUEUES": queues or ["default"]}}
    return [str(fault.id) for fault in task_backends["default"].check()]


def test_settings_that_are_right_pass(broker: BrokerThread, settings: Any) -> None:
    assert faults(settings, ["default", "mails"], PREFIX="shop", DATABASES=["default"], KEEP_DAYS=1) == []


def test_a_missing_app_is_said(broker: BrokerThread, settings: Any) -> None:
    settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name != "broker.tasks"]
    assert faults(settings) == ["escapement_tasks.E001"]


def test_missing_producer_groups_are_said(broker: BrokerThread, settings: Any) -> None:
    settings.ESCAPEMENT_PRODUCER_GROUPS = []
    assert faults(settings) == ["escapement_tasks.E002"]


def test_a_database_that_is_not_there_is_said(broker: BrokerThread, settings: Any) -> None:
    assert faults(settings, DATABASES=["default", "elsewhere"]) == ["escapement_tasks.E003"]


def test_queues_without_topics_of_their_own_are_said(broker: BrokerThread, settings: Any) -> None:
    assert faults(settings, ["two words"]) == ["escapement_tasks.E004"]
    assert faults(settings, ["mails", "mails_high"]) == ["escapement_tasks.E004"] * 2


@pytest.mark.parametrize(
    "options",
    [
        {"PREFIXES": "shop"}, {"PREFIX": "my shop"}, {"DATABASES": "default"}, {"KEEP_DAYS": 0}, {"KEEP_DAYS": "14"},
        {"RETRY": {"pause": 1}},
    ],
)  # fmt: skip
def test_options_that_mean_nothing_are_refused(broker: BrokerThread, settings: Any, options: dict[str, Any]) -> None:
    settings.TASKS = tasks(**options)
    with pytest.raises(ImproperlyConfigured, match=r"TASKS\['default'\]"):
        _ = task_backends["default"]


def test_the_backend_says_what_it_can(backend: EscapementBackend) -> None:
    flags = (backend.supports_defer, backend.supports_async_task, backend.supports_get_result)
    assert (*flags, backend.supports_priority) == (True,) * 4
