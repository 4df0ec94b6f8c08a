"""What can be begun on a page is reached from its head, also without a script: its form may stand below a long list."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.console.people import browser_of, person
from tests.console.stage import Stage

HEADS = {
    "/topics/": ("#create", "Create topic…"),
    "/groups/": ("#create", "Create group…"),
    "/groups/billing/": ("#move", "Reset offsets…"),
    "/people/": ("#new", "Create user…"),
    "/tokens/": ("#new", "Create token…"),
}


def head_of(page: str) -> str:
    """The part of a page before its first container."""
    return page[page.index('<div class="head">') : page.index('class="sheet"')]


@pytest.mark.parametrize("address", HEADS)
def test_a_form_below_is_reached_from_the_head(stage: Stage, operator: Client, address: str) -> None:
    stage.fill()
    stage.consume()
    page = operator.get(address).content.decode()
    anchor, words = HEADS[address]
    assert re.search(rf'<a class="btn( go)?" href="{anchor}">{words}</a>', head_of(page))
    at = page.index(f'id="{anchor[1:]}"')
    assert 'action="/operations/draft/"' in page[at:] or 'action="/operations/draft/"' in page[:at]


@pytest.mark.parametrize("address", ["/topics/", "/groups/"])
def test_create_leads_into_the_name(stage: Stage, operator: Client, address: str) -> None:
    """It led to the form, and who typed on wrote nowhere: a browser goes into the field that an address names."""
    page = operator.get(address).content.decode()
    (field,) = re.findall(r'<[^<>]* id="create"[^<>]*>', page)
    assert field.startswith("<input ") and 'name="name"' in field


@pytest.mark.parametrize("address", ["/topics/", "/groups/", "/groups/billing/"])
def test_who_may_not_is_led_nowhere(stage: Stage, address: str) -> None:
    stage.fill()
    stage.consume()
    page = browser_of(person("viewer")).get(address).content.decode()
    assert HEADS[address][1] not in head_of(page)


def test_the_rail_does_not_call_djangos_admin_something_else(operator: Client, stage: Stage) -> None:
    page = operator.get("/topics/").content.decode()
    (label,) = re.findall(r'<a[^>]*href="/admin/"[^>]*>(.*?)</a>', page, re.DOTALL)
    assert "Django admin" in label
