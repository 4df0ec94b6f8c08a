"""The app of handlers alone, without the outbox: clients have what ESCAPEMENT_CLIENT says, also the shared producer."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps

from broker.client.credentials import security_of
from broker.django import producer
from broker.testing import BrokerThread


def test_the_access_of_the_settings_is_that_of_all_its_clients(settings: Any) -> None:
    settings.ESCAPEMENT_NAMESRV = "handlers-alone:9876"
    settings.ESCAPEMENT_CLIENT = {"access_key": "billing", "secret_key": "secret", "tls": True}
    apps.get_app_config("escapement_handlers").ready()
    security = security_of("handlers-alone:9876", {})
    assert security.signer is not None
    assert security.tls is not None


@pytest.mark.parametrize("time", [1, 2])
def test_the_shared_producer_goes_where_the_settings_say(settings: Any, time: int) -> None:
    with BrokerThread() as broker:
        settings.ESCAPEMENT_NAMESRV = broker.namesrv
        producer.send("orders", f"{time}")
        assert [message.body for message in broker.messages("orders")] == [b"%d" % time]
        producer.close()
