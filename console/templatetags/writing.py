"""Texts and addresses for rows that are written a hundred at a time: escaped here, once, and without a template."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from html import escape
from urllib.parse import quote

from django.urls import get_script_prefix, reverse
from django.utils.http import RFC3986_SUBDELIMS

from console.templatetags.visible import truncatechars
from console.ui.names import Name

#: what stands for a name, and for a number, while the rest of an address is looked up
_NAME, _NUMBER = "7777777777", 7_777_777_777
#: what `reverse` leaves as it is
_PLAIN = RFC3986_SUBDELIMS + "/~:@"


def text(value: str) -> str:
    """For the inside of an element or of an attribute in quotes."""
    return escape(value)


def short(value: str, most: int) -> str:
    """The same of at most so many characters, as the filter `truncatechars` cuts."""
    if not value.isprintable() or not value.isascii() or len(value) > most:
        value = truncatechars(value, most)
    return escape(value)


def named(view: str) -> Callable[[str], str]:
    """What gives the escaped address of a view with one name in it: `reverse` for each row costs more than the row."""
    before, after = _around(view, _NAME, get_script_prefix())
    hidden = Name().to_url
    return lambda name: escape(f"{before}{quote(hidden(name), safe=_PLAIN)}{after}")


def numbered(view: str) -> Callable[[int], str]:
    """The same with one number."""
    before, after = _around(view, _NUMBER, get_script_prefix())
    return lambda number: f"{before}{number}{after}"


@cache
def _around(view: str, sample: str | int, prefix: str) -> tuple[str, str]:
    """What stands before and after the sample; `prefix` is what all addresses begin with, part of what is kept."""
    before, _, after = reverse(view, args=[sample]).partition(str(sample))
    return before, after
