"""The brokers that a page is about: one that its address names, or all of a cluster.

    /topics/                        all brokers of the first cluster
    /at/broker-a/topics/            one broker of it
    /at/lisbon~/topics/             all brokers of the cluster that the settings call lisbon
    /at/lisbon~broker-a/topics/     one of them

What is in front of a page's own address is taken off here, and put in front of every address that the page shows
(Django's script prefix): whoever goes on from there stays with the broker.

The name of a broker of a further cluster is `lisbon/broker-a`, as its rows have it (broker/mirror/models.py); in an
address "~" stands for the "/", as neither is in a broker's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import get_script_prefix, set_script_prefix

from broker.mirror.models import ENTRY_MARK, row_name

PREFIX = "/at/"


@dataclass(frozen=True, slots=True)
class Choice:
    """A cluster of the settings ("": the first), and one of its brokers by its own name ("": all)."""

    entry: str = ""
    broker: str = ""

    @property
    def name(self) -> str:
        """The broker's name as its rows have it; "" for all of a cluster."""
        return self.text if self.broker else ""

    @property
    def text(self) -> str:
        """The choice as one text, which `choice_of` reads."""
        return row_name(self.entry, self.broker)

    @property
    def prefix(self) -> str:
        """What stands in front of the addresses of its pages, without a "/" at the end."""
        if not self.entry and not self.broker:
            return ""
        part = f"{self.entry}~{self.broker}" if self.entry else self.broker
        return PREFIX + quote(part, safe="~")


ALL = Choice()


def choice_of(text: str) -> Choice:
    """Return the choice of one broker, named as its rows name it, or the one that a `Choice.text` stands for."""
    entry, mark, broker = text.partition(ENTRY_MARK)
    return Choice(entry, broker) if mark else Choice("", text)


def split(path: str) -> tuple[Choice, str]:
    """Return which brokers a decoded path is about, and the page's own path."""
    # Django's admin links to the site by the script name alone: without a "/" at its end
    part, _, rest = path.removeprefix(PREFIX).partition("/")
    if not path.startswith(PREFIX) or not part:
        return ALL, path
    entry, mark, broker = part.partition("~")
    return (Choice(entry, broker) if mark else Choice("", part)), f"/{rest}"


_current: ContextVar[Choice] = ContextVar("broker", default=ALL)


def chosen() -> Choice:
    """Return which brokers are asked here and now."""
    return _current.get()


@contextmanager
def choosing(choice: Choice) -> Iterator[None]:
    """Ask these brokers within, and make addresses that stay with them."""
    token, outer = _current.set(choice), get_script_prefix()
    set_script_prefix(f"{choice.prefix}/")
    try:
        yield
    finally:
        set_script_prefix(outer)
        _current.reset(token)


class ChosenBroker:
    """The first middleware: the others, and the pages, see the page's own address."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer what the rest of the address asks for, about the brokers that it begins with."""
        choice, path = split(request.path_info)
        if choice == ALL:
            return self.get_response(request)
        request.path_info = request.META["PATH_INFO"] = path
        request.META["SCRIPT_NAME"] = choice.prefix
        with choosing(choice):
            return self.get_response(request)
