"""Rows that are written without a template say what a template would."""

from __future__ import annotations

import pytest
from django.template import Context, Template
from django.urls import reverse
from django.utils.html import escape
from django.utils.translation import override

from console.templatetags.writing import named, numbered, short
from tests.console.stage import HOSTILE

NAMES = (
    *HOSTILE,
    "",
    ".",
    "..",
    "a/b",
    "~",
    "%RETRY%billing",
    "Zoë & Söhne",
    "e\u0301" * 70,
    "x" * 60,
    "x" * 61,
    "词" * 80,
)


@pytest.mark.parametrize("name", NAMES)
def test_an_address_is_that_of_the_page(name: str) -> None:
    assert named("topic")(name) == escape(reverse("topic", args=[name]))


def test_an_address_with_a_number_is_that_of_the_page() -> None:
    assert numbered("timer")(2**62) == reverse("timer", args=[2**62])


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("name", NAMES)
def test_a_text_is_cut_and_escaped_as_in_a_template(name: str, language: str) -> None:
    with override(language):
        assert short(name, 60) == Template("{{ name|truncatechars:60 }}").render(Context({"name": name}))
