"""What `manage.py check` finds in a project with handlers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from broker.handlers import apps as checks
from broker.testing import BrokerThread


def ids(found: list[Any]) -> list[str]:
    return [each.id for each in found]


def test_a_name_server_that_is_there_is_no_matter(settings: Any, free_port: int) -> None:
    with BrokerThread() as broker:
        settings.ESCAPEMENT_NAMESRV = f"127.0.0.1:{free_port};{broker.namesrv}"
        assert checks.check_name_server() == []


@pytest.mark.parametrize("address", ["", "nonsense", "127.0.0.1:{port}"])
def test_one_that_is_not_is_a_warning_that_names_the_setting(settings: Any, free_port: int, address: str) -> None:
    settings.ESCAPEMENT_NAMESRV = address.format(port=free_port)
    (found,) = checks.check_name_server()
    assert (found.id, "ESCAPEMENT_NAMESRV" in found.hint) == ("escapement.W001", True)


def test_handlers_that_contradict_each_other_are_an_error(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checks.check_handlers() == []
    app = tmp_path / "contradicting"
    app.mkdir()
    (app / "__init__.py").touch()
    (app / "handlers.py").write_text("from broker.handlers import HandlingError\nraise HandlingError('two of them')\n")
    monkeypatch.syspath_prepend(tmp_path)
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "contradicting"]
    assert ids(checks.check_handlers()) == ["escapement.E001"]


@pytest.mark.django_db
def test_missing_migrations_are_said_with_the_command() -> None:
    assert checks.check_migrations(databases=["default"]) == []
    MigrationRecorder(connection).record_unapplied("escapement_handlers", "0001_inbox")
    (found,) = checks.check_migrations(databases=["default"])
    assert (found.id, "escapement_handlers" in found.msg, "migrate --database default" in found.hint) == (
        "escapement.W002", True, True,
    )  # fmt: skip
    assert checks.check_migrations() == []
