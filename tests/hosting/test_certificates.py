"""What the environment says about signatures and TLS."""

from __future__ import annotations

import pytest

from broker.client import Tls
from console.run.addresses import client_access, server_certificates


def test_nothing_said_is_no_tls_and_no_signature() -> None:
    assert server_certificates({}) is None
    assert client_access({}, "escapement", "") == {}


def test_a_certificate_is_shown_beside_plain_connections_of_this_machine() -> None:
    said = {"ESCAPEMENT_TLS_CERT": "c.pem", "ESCAPEMENT_TLS_KEY": "k.pem", "ESCAPEMENT_TLS_CLIENT_CA": "ca.pem"}
    assert server_certificates(said) == {
        "cert_file": "c.pem", "key_file": "k.pem", "client_ca_file": "ca.pem", "is_required": False,
        "is_required_elsewhere": True,
    }  # fmt: skip
    assert client_access(said, "me", "secret") == {"access_key": "me", "secret_key": "secret"}


@pytest.mark.parametrize(
    "said", [{"ESCAPEMENT_TLS": "permissive"}, {"ESCAPEMENT_PLAINTEXT": "1"}], ids=["mode", "network"]
)
def test_plain_clients_of_elsewhere_are_served_where_that_was_said(said: dict[str, str]) -> None:
    certificates = server_certificates({"ESCAPEMENT_TLS_CERT": "c.pem"} | said)
    assert certificates is not None
    assert (certificates["is_required"], certificates["is_required_elsewhere"]) == (False, False)


def test_where_plain_connections_are_refused_our_own_clients_speak_tls() -> None:
    said = {"ESCAPEMENT_TLS": "enforcing", "ESCAPEMENT_TLS_CERT": "c.pem", "ESCAPEMENT_TLS_CA": "ca.pem"}
    certificates = server_certificates(said)
    assert certificates is not None
    assert certificates["is_required"] is True
    assert client_access(said, "me", "")["tls"] == Tls(ca_file="ca.pem")


def test_a_cluster_elsewhere_is_spoken_with_as_is_said() -> None:
    said = {
        "ESCAPEMENT_NAMESRV_TLS": "1", "ESCAPEMENT_TLS_NAME": "mq.example", "ESCAPEMENT_TLS_CLIENT_CERT": "me.pem",
        "ESCAPEMENT_TLS_CLIENT_KEY": "me.key",
    }  # fmt: skip
    access = client_access(said, "me", "secret")
    assert access["tls"] == Tls(server_name="mq.example", cert_file="me.pem", key_file="me.key")
    assert "tls" not in client_access(said | {"ESCAPEMENT_NAMESRV_TLS": "0", "ESCAPEMENT_TLS": "enforcing"}, "me", "")


@pytest.mark.parametrize("said", [{"ESCAPEMENT_TLS": "on"}, {"ESCAPEMENT_TLS": "enforcing"}])
def test_what_contradicts_itself_is_refused(said: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        server_certificates(said)
