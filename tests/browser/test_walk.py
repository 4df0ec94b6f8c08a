# ruff: noqa: F811 - fixtures taken from other modules are parameters here
"""A walk through every page as each role, at every width: nothing is cut off, and what is
said is what the broker knows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from playwright.sync_api import Browser, Page, ViewportSize, expect

from broker.client import Admin
from console.operations.actor import Actor
from tests.browser.conftest import WATCH, Web
from tests.console.conftest import actor, server  # noqa: F401 - fixtures
from tests.console.security.test_limited import filled  # noqa: F401 - a fixture
from tests.console.stage import Stage
from tests.security.conftest import stage  # noqa: F401 - a fixture
from tests.security.scene import FOREIGN, GROUPS, OTHER, OWN, People, Team, addresses, two_teams
from tests.security.table import LIMITED_DIFFER, rows

#: 200 % on a laptop is half of its width
WIDTHS = {"390": 390, "760": 760, "1024": 1_024, "1440": 1_440, "200 %": 720}
#: what stands in one row of the header and runs into its neighbour, what is wider than the page, and whether it scrolls
LAYOUT = """(width) => {
  const found = [], bar = document.querySelector("header.bar");
  const seen = (e) => e.checkVisibility() && e.getBoundingClientRect().width > 1;
  const boxes = bar ? [...bar.children].filter(seen).map((e) => [e, e.getBoundingClientRect()]) : [];
  for (const [one, a] of boxes) for (const [two, b] of boxes) {
    if (one === two || !(one.compareDocumentPosition(two) & Node.DOCUMENT_POSITION_FOLLOWING)) continue;
    const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (x > 1 && y > 1) found.push(`header: ${one.className || one.tagName} over ${two.className || two.tagName}`);
  }
  if (document.documentElement.scrollWidth > width) found.push(`scrolls to ${document.documentElement.scrollWidth} px`);
  return found;
}"""


@pytest.fixture
def both(filled: Stage, actor: Actor, web: Web) -> Iterator[dict[str, Team]]:
    with two_teams(filled, actor) as made:
        yield made


class Walk:
    """Somebody's browser, and what was wrong on the way."""

    def __init__(self, chromium: Browser, web: Web, people: People, role: str) -> None:
        self.web, self.role, self.faults = web, role, list[str]()
        self.context = chromium.new_context(viewport={"width": 1_440, "height": 900}, reduced_motion="reduce")
        self.context.add_init_script(WATCH)
        self.context.set_default_timeout(15_000)
        session = people.browser(role).cookies["sessionid"].value
        self.context.add_cookies([{"name": "sessionid", "value": session, "url": web.address}])
        self.here = ""
        self.page: Page = self.context.new_page()
        self.page.on("console", lambda said: said.type == "error" and self.note(f"console: {said.text}"))
        self.page.on("pageerror", lambda error: self.note(str(error)))

    def note(self, text: str) -> None:
        if "status of 403" not in text:  # the page of a refusal is one as well
            self.faults.append(f"{self.role} {self.here}: {text}")

    def visit(self, address: str, widths: list[str]) -> None:
        """Look at a page at these widths."""
        self.here = address
        self.page.goto(self.web.address + address)
        for name in widths:
            size: ViewportSize = {"width": WIDTHS[name], "height": 900}
            self.page.set_viewport_size(size)
            for fault in self.page.evaluate(LAYOUT, size["width"]):
                self.note(f"at {name}: {fault}")
        for fault in self.page.evaluate("violations"):
            self.note(fault)

    def can_leave(self, address: str, widths: list[str]) -> None:
        """The button to sign out is reached at each width: in the menu, or on the page that refuses."""
        self.page.goto(self.web.address + address)
        menu = self.page.locator("header.bar details.account summary")
        for name in widths:
            self.page.set_viewport_size({"width": WIDTHS[name], "height": 900})
            if self.role != "none":
                menu.click()
            expect(self.page.get_by_role("button", name="Sign out", exact=True)).to_be_in_viewport(ratio=1)
            self.page.keyboard.press("Escape")

    def rows_of(self, address: str, marked: str) -> int:
        """How many rows of the first list of a page have a word in them."""
        self.page.set_viewport_size({"width": 1_440, "height": 900})
        self.page.goto(self.web.address + address)
        return self.page.locator("main table tbody tr", has_text=marked).count()


def pages_for(role: str, team: Team) -> list[str]:
    """The pages that this role is shown, not files and what leads elsewhere."""
    plain = role.removeprefix("limited ")
    return [
        address
        for name, address in addresses(team)
        if rows()[name, "GET"].roles[plain] == "yes"
        and LIMITED_DIFFER.get((name, "GET", plain), "yes" if role == plain else "") in ("yes", "")
        and not address.endswith((".json", ".csv", "/body", "healthz", "readyz"))
    ]


def test_who_sees_some_topics_walks_through_all_pages(
    both: dict[str, Team], filled: Stage, chromium: Browser, web: Web
) -> None:
    walk = Walk(chromium, web, People(), "limited operator")
    for address in pages_for("limited operator", both[OWN]):
        walk.visit(address, ["390", "760", "1024", "1440"])
        told = walk.page.locator("body").inner_text()
        if any(word in told for word in FOREIGN):
            walk.note("names what is the other team's")
    walk.can_leave("/topics/", [*WIDTHS])
    counted(walk, filled.admin)
    walk.context.close()
    assert not walk.faults, "\n".join(walk.faults)


def counted(walk: Walk, admin: Admin) -> None:
    """The lists say what the broker knows of the own topics: as many, and none of the others'."""
    timers = [row.topic for row in admin.timers(0, 2**62).items]
    halves = [row.topic for row in admin.transactions("open").items]
    letters = sum(queue.max_offset - queue.min_offset for queue in admin.topic_stats(f"%DLQ%{GROUPS[OWN]}").queues)
    known = {
        ("/timers/list/", OWN): timers.count(OWN),
        ("/transactions/list/?state=open", OWN): halves.count(OWN),
        (f"/dead-letters/of/{GROUPS[OWN]}/", OWN): letters,
        ("/topics/", OWN): 1,
        ("/groups/", GROUPS[OWN]): 1,
        ("/timers/list/", OTHER): 0,
    }
    assert timers.count(OTHER) > 0
    for (address, word), count in known.items():
        if (shown := walk.rows_of(address, word)) != count:
            walk.note(f"{address} shows {shown} of {word}, the broker has {count}")


@pytest.mark.parametrize("role", ["none", "viewer", "administrator", "superuser"])
def test_every_role_can_leave_at_every_width(
    both: dict[str, Team], chromium: Browser, web: Web, server: redis.Redis, role: str
) -> None:
    walk = Walk(chromium, web, People(), role)
    walk.visit("/timers/list/", [*WIDTHS])
    walk.can_leave("/timers/list/", [*WIDTHS])
    walk.context.close()
    assert not walk.faults, "\n".join(walk.faults)


@pytest.mark.soak
@pytest.mark.parametrize("role", ["viewer", "operator", "administrator", "superuser", "limited viewer"])
def test_every_role_walks_through_all_pages(both: dict[str, Team], chromium: Browser, web: Web, role: str) -> None:
    walk = Walk(chromium, web, People(), role)
    for address in pages_for(role, both[OWN]):
        walk.visit(address, [*WIDTHS])
    walk.context.close()
    assert not walk.faults, "\n".join(walk.faults)
