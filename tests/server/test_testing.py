"""The broker and the name service that tests of other programs start."""

from __future__ import annotations

from broker.client import Admin, Producer
from broker.testing import BrokerThread, NamesrvThread
from tests.waiting import until


def test_a_broker_registers_at_a_name_service_that_comes_and_goes() -> None:
    with NamesrvThread() as names, BrokerThread(register_at=names.namesrv) as broker:
        until(lambda: broker.registered == {names.namesrv: True})
        with Producer("shop", names.namesrv) as producer:
            producer.send("orders", b"4711")
        names.stop()
        until(lambda: broker.registered == {names.namesrv: False})
        names.start()
        until(lambda: broker.registered == {names.namesrv: True})
        with Admin(names.namesrv) as admin:
            assert [each.name for each in admin.brokers()] == ["broker-a"]
        broker.stop()
        assert broker.registered == {}
        with Admin(names.namesrv) as admin:
            assert not admin.brokers()
