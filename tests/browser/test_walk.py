# ruff: noqa: F811 - fixtures taken from other modules are parameters here
"""A walk through every page as each role, at every width: nothing is cut off, and what is
said is what the broker knows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from broker.client import Admin
from console.features.overview.findings import forget
from console.operations.actor import Actor
from tests.browser.conftest import WATCH, Web
from tests.browser.told import FIGURES, MINGLED, NOTHING, SAID, Broker, Figure
from tests.console.conftest import actor, server  # noqa: F401 - fixtures
from tests.console.security.test_limited import filled  # noqa: F401 - a fixture
from tests.console.stage import Stage
from tests.security.conftest import stage  # noqa: F401 - a fixture
from tests.security.scene import FOREIGN, OWN, People, Team, addresses, two_teams
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

    def rows_with(self, word: str) -> int:
        """How many rows of the lists of this page have a word in them."""
        return self.page.locator("main table tbody tr", has_text=word).count()


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


def walked(walk: Walk, team: Team, widths: list[str], admin: Admin) -> None:
    """Visit all pages of a role, and compare what they say with what the broker knows."""
    is_limited, known = walk.role.startswith("limited "), Broker(admin)
    figures, rows = [*known.figures(is_limited=is_limited)], [*known.rows(is_limited=is_limited)]
    compared = [each.address for each in (*figures, *rows)]
    for address in dict.fromkeys((*pages_for(walk.role, team), *compared)):
        walk.visit(address, widths)
        told = walk.page.locator("body").inner_text()
        if is_limited and (named := [word for word in FOREIGN if word in told]):
            walk.note(f"names what is the other team's: {named}")
        for fault in walk.page.evaluate(MINGLED) if is_limited else ():
            walk.note(fault)
        if address in compared:
            check_figures(walk, [each for each in figures if each.address == address], is_limited=is_limited)
            for row in rows:
                if row.address == address and (count := walk.rows_with(row.word)) != row.count:
                    walk.note(f"shows {count} of {row.word}, the broker has {row.count}")
            said = walk.page.evaluate(SAID)
            walk.faults += [f"{walk.role} {address}: says {words}" for words in NOTHING if words in said]


def check_figures(walk: Walk, figures: list[Figure], *, is_limited: bool) -> None:
    """Each is what the broker has; a broker that was too busy to be asked is asked once more."""
    for _ in range(3):
        told: list[tuple[str, str, bool]] = walk.page.evaluate(FIGURES)
        shown = {(name, is_whole): value for name, value, is_whole in told}
        wanted = {(figure.name, figure.is_whole and is_limited): figure.value for figure in figures}
        if "\u2013" not in [shown.get(name) for name in wanted]:
            break
        forget()
        walk.page.reload()
    for name, value in wanted.items():
        if shown.get(name) != f"{value:,}":
            walk.note(f"{name[0]} is {shown.get(name)}, the broker has {value} (of the whole broker: {name[1]})")


def test_who_sees_some_topics_walks_through_all_pages(
    both: dict[str, Team], filled: Stage, chromium: Browser, web: Web
) -> None:
    """The core of the walks: narrow and wide; all widths and roles are in the soak below."""
    walk = Walk(chromium, web, People(), "limited operator")
    walked(walk, both[OWN], ["390", "1440"], filled.admin)
    walk.can_leave("/topics/", [*WIDTHS])
    walk.context.close()
    assert not walk.faults, "\n".join(walk.faults)


def test_every_role_can_leave_at_every_width(both: dict[str, Team], chromium: Browser, web: Web) -> None:
    people = People()
    for role in ("none", "viewer", "administrator", "superuser"):
        walk = Walk(chromium, web, people, role)
        walk.visit("/timers/list/", [*WIDTHS])
        walk.can_leave("/timers/list/", [*WIDTHS])
        walk.context.close()
        assert not walk.faults, "\n".join(walk.faults)


@pytest.mark.soak
@pytest.mark.parametrize(
    "role", ["viewer", "operator", "administrator", "superuser", "limited viewer", "limited operator"]
)
def test_every_role_walks_through_all_pages(
    both: dict[str, Team], filled: Stage, chromium: Browser, web: Web, role: str
) -> None:
    walk = Walk(chromium, web, People(), role)
    walked(walk, both[OWN], [*WIDTHS], filled.admin)
    walk.can_leave("/timers/list/", [*WIDTHS])
    walk.context.close()
    assert not walk.faults, "\n".join(walk.faults)
