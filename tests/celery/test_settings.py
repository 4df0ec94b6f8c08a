"""What the address and the options of a connection say, and how kombu comes to know the address."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kombu import Connection

import broker.celery as transport
from broker.celery.settings import Settings, settings_of
from broker.client import InvalidArgument, Tls
from tests.house.sources import ROOT


def said(address: str, **options: object) -> Settings:
    return settings_of(Connection(address, **options))


def test_an_address_alone() -> None:
    assert said("escapement://") == Settings("127.0.0.1:9876")
    assert said("escapement://names:1234//") == Settings("names:1234")
    assert said("escapement://names").access == {}


def test_a_user_a_prefix_and_several_name_servers() -> None:
    settings = said("escapement://shop:secret@one/blue;escapement://shop:secret@two:1234")
    assert settings.namesrv == "one:9876;two:1234"
    assert settings.prefix == "blue-"
    assert settings.access == {"access_key": "shop", "secret_key": "secret", "tls": False}


def test_options_are_in_seconds_as_celerys_are() -> None:
    options = {
        "visibility_timeout": 90,
        "poll_timeout": 0.5,
        "send_timeout": 2,
        "queues": 4,
        "group": "g",
        "prefix": "p.",
    }
    settings = said("escapement://", transport_options=options | {"max_retries": 3, "fanout_prefix": True})
    assert settings == Settings("127.0.0.1:9876", None, None, False, "g", "p.", 90_000, 500, 2_000, 4)


def test_tls_is_said_as_for_other_brokers() -> None:
    assert said("escapement://", ssl=True).tls is True
    given = {"ca_certs": "ca.pem", "certfile": "c.pem", "ssl_keyfile": "k.pem"}
    assert said("escapement://", ssl=given).tls == Tls("ca.pem", None, True, "c.pem", "k.pem")


@pytest.mark.parametrize(
    "options",
    [{"visibility_timeout": 0}, {"visibility_timeout": "60"}, {"queues": 0}, {"queues": True}, {"group": "a b"}],
)
def test_what_is_not_valid_is_refused_before_anything_is_sent(options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        said("escapement://", transport_options=options)


def test_kombu_knows_the_address_of_an_installed_wheel_by_itself(tmp_path: Path) -> None:
    about = tmp_path / "installed-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[kombu.serializers]\nescapement = {transport.__name__}:KOMBU\n")
    program = (
        "from celery import Celery; app = Celery(broker='escapement://'); print(app.connection().transport.driver_name)"
    )
    found = [str(tmp_path), str(ROOT)]
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": os.pathsep.join(found)}, cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "escapement", done.stderr
