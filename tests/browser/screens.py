"""Takes the pictures of docs/screens. `make screens` runs it; no test run does, by its name.

Pictures show the shop of tests.browser.shop in the sizes and looks named here; the manifest beside them keeps what
their pages draw (tests.console.ui.drawn), and tests say when that is another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import redis
from django.test import Client
from playwright.sync_api import Browser, Page, expect

from tests.browser import shop
from tests.browser.conftest import Web
from tests.browser.palette_png import small
from tests.browser.test_transactions import stage  # noqa: F401 - a fixture: a broker that asks about halves soon
from tests.console.stage import Stage
from tests.console.ui import drawn

DESK, TELEPHONE = (1280, 860), (320, 700)
WIDE = (1440, 960)


@dataclass(frozen=True)
class Look:
    """How a page is shown."""

    size: tuple[int, int] = DESK
    scheme: str = "light"
    language: str = "en"


#: file name -> address, or the name of one that the shop gives; how it is shown
PICTURES: dict[str, tuple[str, Look]] = {
    "overview": ("/", Look()), "due": ("/due/", Look()),
    "schedule": ("/schedule/", Look(WIDE)), "lane": ("lane", Look()),
    "timers": ("/timers/", Look(WIDE)), "timers-list": ("/timers/list/", Look()), "timer": ("timer", Look()),
    "transactions": ("/transactions/", Look(WIDE)), "transaction": ("transaction", Look()),
    "compare": ("/compare/", Look()),
    "redisson": ("/redisson/", Look()), "topics": ("/topics/", Look()), "topic": ("/topics/orders/", Look()),
    "broker": ("/broker/", Look()), "own-settings": ("/account/settings/", Look()),
    "groups": ("/groups/", Look()), "group": ("/groups/ledger/", Look()), "clients": ("/clients/", Look()),
    "dead-letters": ("/dead-letters/of/billing/", Look()), "dead-letter-groups": ("/dead-letters/", Look()),
    "messages": ("/messages/?topic=orders&tag=paid", Look()), "message": ("message", Look()),
    "dashboard": ("/dashboards/flow/", Look()), "alerts": ("/alerts/", Look()),
    "alert-rule": ("/alerts/rules/new/", Look()),
    "operations": ("/operations/", Look()), "operation": ("operation", Look()), "cancelled": ("cancelled", Look()),
    "audit": ("/audit/", Look()), "broker-users": ("/access/", Look()), "people": ("/people/", Look()),
    "tokens": ("/tokens/", Look()), "components": ("/design/", Look()),
    "overview-dark": ("/", Look(scheme="dark")), "schedule-dark": ("/schedule/", Look(WIDE, "dark")),
    "timers-dark": ("/timers/", Look(WIDE, "dark")), "message-dark": ("message", Look(scheme="dark")),
    "overview-zh": ("/", Look(language="zh-hans")),
    "transactions-zh": ("/transactions/", Look(WIDE, "light", "zh-hans")),
    "schedule-320": ("/schedule/", Look(TELEPHONE)), "operation-320": ("operation", Look(TELEPHONE)),
}  # fmt: skip


def test_pictures_are_taken(
    stage: Stage,  # noqa: F811 - the fixture from above
    web: Web,
    chromium: Browser,
    operator: Client,
    valkey: str,
    settings: Any,
) -> None:
    settings.REDISSON_URL, settings.REDISSON_QUEUES = valkey, ["*"]
    client = redis.Redis.from_url(valkey)
    drawn.SCREENS.mkdir(parents=True, exist_ok=True)
    # those of the demonstration lie below
    for former in drawn.SCREENS.glob("*.png"):
        former.unlink()
    kept: dict[str, dict[str, Any]] = {}
    with shop.opened(stage, client) as addresses:
        blank = chromium.new_page()
        for name, (wanted, how) in PICTURES.items():
            address = addresses.get(wanted, wanted)
            shop.look(stage)
            path = drawn.SCREENS / f"{name}.png"
            path.write_bytes(small(blank, _shot(chromium, operator, web, address, how)))
            kept[path.name] = {**_shown(operator, wanted, address), "sha256": drawn.digest(path)}
    drawn.write_manifest(kept)
    client.close()


def _shot(chromium: Browser, operator: Client, web: Web, address: str, how: Look) -> bytes:
    width, height = how.size
    context = chromium.new_context(
        viewport={"width": width, "height": height}, reduced_motion="reduce", color_scheme=how.scheme
    )
    context.add_cookies(
        [
            {"name": "sessionid", "value": operator.cookies["sessionid"].value, "url": web.address},
            {"name": "django_language", "value": how.language, "url": web.address},
        ]
    )
    page = context.new_page()
    page.goto(web.address + address)
    _settle(page)
    taken = page.screenshot(animations="disabled", caret="hide")
    context.close()
    return taken


def _settle(page: Page) -> None:
    """Letters and plots are there, and a live page is live."""
    page.evaluate("document.fonts.ready")
    if page.locator("#live").count():
        expect(page.locator("#live")).to_contain_class("verd")
    if page.locator("[data-plot]").count():
        expect(page.locator("[data-plot]:not([hidden]) canvas").first).to_be_visible()


def _shown(operator: Client, wanted: str, address: str) -> dict[str, Any]:
    """What the picture's page is: its address or its name in the shop, its place in the rail, what it draws."""
    answer: Any = operator.get(address)
    return {
        "address": wanted,
        "place": answer.context["here"],
        "elements": " ".join(drawn.elements(answer.content.decode())),
    }
