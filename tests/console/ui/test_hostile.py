"""Two hundred hostile texts in every text of every page: what is rendered has the same elements and attributes as with
harmless ones, and not one more. The views' own contexts are rendered again, so that what a broker would refuse is met.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import partial
from html.parser import HTMLParser
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from django.template.loader import render_to_string
from django.test import Client
from django.urls import resolve, reverse

from console import snapshots
from console.operations import workflow
from console.operations.actor import Actor
from tests.console.stage import Stage
from tests.console.ui.test_exporting import FORMULA
from tests.console.ui.test_exporting import filled as filled

#: half surrogate pairs are no text that a page can be sent with; files have a test of them (test_exporting.py)
TEXTS: list[str] = [
    text
    for text in json.loads((Path(__file__).parents[2] / "data" / "hostile.json").read_text())
    if not any("\ud800" <= character <= "\udfff" for character in text)
]
#: codes that the console itself gives: a template chooses by them
CODES = {"zoom", "order", "kind", "role", "state", "severity", "codec", "what", "window", "code", "packing", "family"}
SCHEMES = ("javascript:", "data:", "vbscript:")
ROUNDS = 3
Text = Callable[[], str]


def told(value: Any, text: Text, field: str = "") -> Any:
    """The same shape with other texts; lists cut to two rows."""
    if type(value) is str:
        return text() if value and field not in CODES else value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(told(getattr(value, name), text, name) for name in value._fields))
    if isinstance(value, tuple):
        return tuple(
            told(each, text, field) for each in (value[:2] if field in ("rows", "messages", "hits") else value)
        )
    if isinstance(value, dict):
        return {key: told(each, text, field) for key, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        found = {each.name: told(getattr(value, each.name), text, each.name) for each in fields(value) if each.init}
        return replace(value, **found)
    return value


class Skeleton(HTMLParser):
    """Elements with the names of their attributes; values that could run are kept apart."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.addresses: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.addresses += [text or "" for name, text in attrs if name in ("href", "src", "action", "formaction")]

    def handle_comment(self, data: str) -> None:
        self.elements.append(("<!--", ()))

    def handle_decl(self, decl: str) -> None:
        self.elements.append(("<!", ()))

    def handle_pi(self, data: str) -> None:
        self.elements.append(("<?", ()))


def rounds() -> Iterator[tuple[Text, Text]]:
    """A text for each field in turn, and at last all texts that are not long together in every field; with harmless
    ones for comparison."""
    for number in range(ROUNDS):
        texts, numbers = islice(cycle(text or "x" for text in TEXTS), number * 71, None), cycle(range(len(TEXTS)))
        yield partial(next, texts), partial(next, (f"harmless-{each}" for each in numbers))
    together = " ".join(text for text in TEXTS if len(text) < 1_000)
    yield lambda: together, lambda: "harmless"


def paths_of(stage: Stage, operator: Client, actor: Actor) -> list[str]:
    timer, half = stage.admin.timers(0, 2**62).items[0], stage.admin.transactions("open").items[0]
    record = stage.producer.send("orders", "body", keys=["key"], tag="tag", properties={"note": "text"})
    draft = workflow.draft("timers.cancel", {"filter": {"topic": "orders"}}, actor)
    done = workflow.start(
        "groups.reset_offsets", {"group": "billing", "topic": "orders", "to": "last"}, actor, reason="r"
    )
    client = stage.admin.consumers(["billing"])[0].client_id
    snapshots.take()
    return [
        "/", "/topics/", "/topics/orders/", "/topics/orders/0/", "/topics/orders/tail/", "/groups/", "/groups/billing/",
        "/clients/", f"/clients/one/?id={quote(client)}", "/schedule/", "/schedule/16/", "/timers/", "/timers/list/",
        f"/timers/{timer.position}/", "/transactions/", "/transactions/list/", f"/transactions/{half.position}/",
        "/redisson/", f"/redisson/queue/?name={FORMULA}", "/messages/?topic=orders", "/messages/?q=k",
        f"/messages/{record.offset_message_id}/", "/dead-letters/", "/dead-letters/of/billing/",
        f"/operations/{draft.pk}/", f"/operations/{done.pk}/", "/schedule/?as_of=%2B1h", "/timers/?as_of=%2B1h",
        "/groups/?as_of=%2B1h", "/compare/?from=%2B1h&to=",
    ]  # fmt: skip


def test_no_text_becomes_markup_on_any_page(filled: Stage, operator: Client, actor: Actor) -> None:
    assert len(TEXTS) >= 200
    for path in paths_of(filled, operator, actor):
        answer = operator.get(path)
        assert answer.status_code == 200, path
        template, context = answer.templates[0].name, answer.context[0].flatten()

        def html(text: Text, template: Any = template, context: Any = context) -> str:
            shape = told(context["data"], text)
            page = render_to_string(template, {**context, "data": shape})
            page.encode("utf-8")
            return page

        # as many different texts as there are hostile ones: some parts are there once for each
        for text, harmless in rounds():
            found = Skeleton(html(text))
            assert found.elements == Skeleton(html(harmless)).elements, path
            bad = [each for each in found.addresses if each.strip().lower().startswith(SCHEMES)]
            assert not bad, path


def test_what_was_asked_for_is_shown_as_text(operator: Client) -> None:
    plain = Skeleton(operator.get("/find/", {"q": "zzz"}).content.decode())
    for text in TEXTS[::8]:
        page = Skeleton(operator.get("/find/", {"q": f"zzz{text}"[:2_000]}).content.decode())
        assert page.elements == plain.elements, text


def test_the_texts_would_be_markup_if_a_page_let_them() -> None:
    loose = [text for text in TEXTS if len(Skeleton(f'<p title="{text}">{text}</p>').elements) != 1]
    assert len(loose) > 90


@pytest.mark.parametrize(
    "name", ["orders", "%RETRY%billing", "a/b", "/", "", ".", "..", "~", "a~2Fb", "~7E", "a b?#", "..x"]
)
@pytest.mark.parametrize("page", ["topic", "group", "tail", "dead_letters_of", "message"])
def test_an_address_leads_back_to_its_name(page: str, name: str) -> None:
    found = resolve(unquote(reverse(page, args=[name])))
    assert (found.url_name, [*found.kwargs.values()]) == (page, [name])
