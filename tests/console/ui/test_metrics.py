"""`/metrics` and `/readyz` of the web process."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from broker.mirror.models import Broker, MirrorState
from console.operations.models import Operation


def samples(response: Any) -> dict[str, list[tuple[dict[str, str], float]]]:
    assert response.status_code == 200
    assert response["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(response.content.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_the_web_process_tells_of_mirror_operations_and_itself(db: None) -> None:
    for name, error in (("broker-a", ""), ("broker-b", "no answer")):
        Broker.mirror_writer.bulk_create([Broker(name=name)])
        state = MirrorState(broker_id=name, as_of_ms=1_795_249_116_470, took_ms=12, error=error)
        MirrorState.mirror_writer.bulk_create([state])
    Operation.objects.create(kind="x", state=Operation.State.DONE)
    found = samples(Client().get("/metrics", headers={"Host": "localhost"}))
    a, b = {"broker": "broker-a"}, {"broker": "broker-b"}
    assert found["escapement_mirror_failing"] == [(a, 0), (b, 1)]
    assert found["escapement_mirror_as_of_seconds"][0] == (a, 1_795_249_116.470)
    assert found["escapement_mirror_took_seconds"][0] == (a, 0.012)
    assert ({"state": "done"}, 1) in found["escapement_operations"]
    assert found["process_resident_memory_bytes"][0][1] > 1 << 20


@pytest.mark.parametrize(
    "how",
    [
        {"REMOTE_ADDR": "10.0.0.1"},
        {"HTTP_X_FORWARDED_FOR": "10.0.0.1"},
        {"HTTP_HOST": "testserver"},
    ],
)
def test_metrics_are_for_this_machine(db: None, how: dict[str, str]) -> None:
    here = {"HTTP_HOST": "127.0.0.1:8000", "REMOTE_ADDR": "127.0.0.1"}
    assert Client().get("/metrics", **here).status_code == 200  # type: ignore[arg-type]  # headers
    refused = Client().get("/metrics", **here | how)  # type: ignore[arg-type]  # headers
    assert refused.status_code == 403
    assert b"escapement" not in refused.content


@pytest.mark.parametrize(
    ("header", "status"), [(None, 403), ("Bearer another", 403), ("Basic a-token", 403), ("Bearer a-token", 200)]
)
def test_with_a_token_only_who_brings_it_is_told(db: None, settings: Any, header: str | None, status: int) -> None:
    settings.METRICS_TOKEN = "a-token"
    headers = {} if header is None else {"Authorization": header}
    for address in ("127.0.0.1", "10.0.0.1"):
        assert Client(REMOTE_ADDR=address).get("/metrics", headers=headers).status_code == status


def test_the_web_process_is_ready_while_the_database_answers(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Client().get("/readyz").status_code == 200

    def down() -> None:
        raise OperationalError

    with monkeypatch.context() as broken:
        broken.setattr(connection, "cursor", down)
        assert Client().get("/readyz").status_code == 503
    assert Client().get("/healthz").status_code == 200


def test_asked_about_brokers_it_is_ready_only_while_each_is_known(db: None) -> None:
    now_ms = time.time_ns() // 1_000_000
    assert Client().get("/readyz?broker").status_code == 503, "none is known"
    Broker.mirror_writer.bulk_create([Broker(name="broker-a")])
    MirrorState.mirror_writer.bulk_create([MirrorState(broker_id="broker-a", as_of_ms=now_ms)])
    assert Client().get("/readyz?broker").status_code == 200
    MirrorState.mirror_writer.update(error="No connection to 127.0.0.1:10911")
    answer = Client().get("/readyz?broker")
    assert (answer.status_code, answer.content) == (503, b"a broker is not known as it is now\n")
    assert Client().get("/readyz").status_code == 200


def test_over_https_who_watches_is_not_sent_to_the_proxy(db: None, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    assert [Client().get(path).status_code for path in ("/healthz", "/readyz", "/login/")] == [200, 200, 301]
