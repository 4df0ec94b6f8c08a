"""Console pages in Chromium: what the first load brings, and how soon a change is on the screen."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from playwright.sync_api import Browser, BrowserContext, sync_playwright

from broker.client import Producer

#: a page that is open a little longer than the socket's first frames take
SETTLED_MS, SPACING_MS = 2_000, 700


@dataclass(frozen=True, slots=True)
class Load:
    """First load of a page: bytes as they are sent, until deferred scripts ran."""

    sent_kb: float
    interactive_ms: float
    scripts: Mapping[str, float]


LOOK = """() => ({
  ms: performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd,
  sent: performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource"))
    .map((each) => [each.name, each.encodedBodySize / 1000]),
})"""
HAS = "(mark) => document.querySelector('#tail').textContent.includes(mark)"


@contextmanager
def chromium() -> Iterator[Browser]:
    """A started browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield browser
        browser.close()


def signed_in(browser: Browser, base: str, session: str) -> BrowserContext:
    """A context of the session with an empty cache."""
    context = browser.new_context()
    context.add_cookies([{"name": "sessionid", "value": session, "url": base}])
    return context


def loaded(base: str, session: str, pages: Mapping[str, str], loads: int) -> dict[str, Load]:
    """Load every page some times, each time with an empty cache."""
    found: dict[str, Load] = {}
    with chromium() as browser:
        for name, path in pages.items():
            told = []
            for _ in range(loads):
                with signed_in(browser, base, session) as context:
                    page = context.new_page()
                    page.goto(base + path, wait_until="load")
                    told.append(page.evaluate(LOOK))
            sent = dict(told[0]["sent"])
            scripts = {address: kb for address, kb in sent.items() if address.partition("?")[0].endswith(".js")}
            found[name] = Load(sum(sent.values()), max(each["ms"] for each in told), scripts)
            print(f"  {path}: {found[name].sent_kb:.0f} kB, {found[name].interactive_ms:.0f} ms", file=sys.stderr)
    return found


def seen_after_ms(base: str, session: str, namesrv: str, topic: str, count: int) -> list[float]:
    """From the call of a send to its body on the screen, on the topic's tail, ms."""
    taken = []
    with chromium() as browser, Producer("seen", namesrv) as producer:
        page = signed_in(browser, base, session).new_page()
        page.goto(f"{base}/topics/{topic}/tail/", wait_until="load")
        page.wait_for_timeout(SETTLED_MS)
        for number in range(count):
            mark = f"seen-{number}-{time.time_ns()}"
            begin_s = time.monotonic()
            producer.send(topic, mark.encode())
            page.wait_for_function(HAS, arg=mark, polling="raf")
            taken.append((time.monotonic() - begin_s) * 1_000)
            page.wait_for_timeout(SPACING_MS)
    return taken
