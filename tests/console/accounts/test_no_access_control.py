"""Broker users of a broker without access control: that it is so, how it is enabled, no form that cannot work."""

from __future__ import annotations

from typing import Any

from django.test import Client

from tests.console.stage import Stage
from tests.console.ui.test_pages import words


def test_without_access_control_there_is_no_form_and_a_way_to_enable_it(stage: Stage, operator: Client) -> None:
    answer = operator.get("/access/")
    page = words(answer)
    assert "This broker has no access control." in page
    assert "set ESCAPEMENT_ACCESS=1 and restart" in page
    assert "access.create" not in answer.content.decode()
    assert "Create broker user" not in page


def test_where_nobody_answers_nothing_is_known(operator: Client, settings: Any, free_port: int) -> None:
    settings.ESCAPEMENT_NAMESRV = f"127.0.0.1:{free_port}"
    answer = operator.get("/access/")
    assert "This broker has no access control." not in words(answer)
    assert "access.create" not in answer.content.decode()
