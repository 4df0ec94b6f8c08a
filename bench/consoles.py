"""The console at large scale: every page, its first load in Chromium, and two hundred of them kept open.

`--store A`: a store that `bench.filling` filled with timers before (what it printed in `A.told`); a copy is used.

A page in Chromium tells what the first load brings, and how soon a change is on the screen. Open consoles need no
browser: they are websockets that speak what the pages speak.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import httpx
from playwright.sync_api import Browser, BrowserContext, sync_playwright
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from bench import openhalves
from bench.installation import Installation, installed
from bench.pace import at_rate
from bench.peers import make, work_directory
from bench.pending import copied, filled
from bench.producers import processor_s
from bench.results import Row, Section, share
from broker.client import Admin, AsyncProducer, Producer
from tests.interop.servers import Server
from tests.interop.waiting import wait_until

TITLE = "The console at large scale"
DEFINITION = (
    "{topics:,} topics of 4 queues, {groups:,} groups that read one each, {pending:,} timers pending, {halves:,} open "
    "halves. Server: request to last byte over loopback on a kept connection, one at a time, p95 of {requests}, while "
    "the mirror follows. First load: all bytes that a Chromium without a cache receives for a page, as they are sent; "
    "JavaScript: of all pages together. Interactive: DOMContentLoaded, deferred scripts run, the slowest of {loads} "
    "loads each. Open consoles: {sockets} websockets on {open_pages} pages, {rate} sends a second to random topics; "
    "what the broker's process takes of a core for {seconds} s, less the same with no page open. Change: from the call "
    "of a send to the frame that shows its body, {changes} sends."
)
TOPIC, GROUP, TAIL = "Topic-{:04}", "Group-{:04}", "Topic-0002"
SERVER_MS, LOAD_KB, SCRIPT_KB, INTERACTIVE_MS, CORE_PERCENT, CHANGE_MS = 100, 100, 60, 1_000, 5, 500
RATE = 20
#: pages kept open, by address of their sockets
OPEN = (
    "overview", "topics", "groups", "schedule", "timers", "transactions", "topic/Topic-0001", "group/Group-0001",
    "clients", "lane/17", "topics?offset=500", "groups?search=Group-09", f"tail/{TAIL}",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scale:
    """The size of everything that is furnished and measured."""

    topics: int = 1_000
    groups: int = 1_000
    pending: int = 10_000_000
    halves: int = 1_000_000
    requests: int = 40
    loads: int = 3
    sockets: int = 200
    seconds: int = 30
    changes: int = 40


QUICK = Scale(50, 50, 20_000, 5_000, 5, 1, 20, 5, 5)


def measure(options: Namespace, at: str) -> Section:
    """Measure a broker with all of it, and an installation that follows it."""
    scale = QUICK if options.quick else Scale()
    with work_directory() as base:
        server = make("escapement", base, "async")
        server.root.parent.mkdir(parents=True, exist_ok=True)
        taken = copied(Path(options.store), server.root) if options.store else filled(scale.pending, server.root)
        server.start()
        try:
            furnish(server, scale)
            with installed(base, server.namesrv) as one:
                rows, notes = looked_at(one, server, scale)
        finally:
            server.kill()
    definition = DEFINITION.format(
        topics=scale.topics, groups=scale.groups, pending=int(taken["count"]), halves=scale.halves,
        requests=scale.requests, loads=scale.loads, sockets=scale.sockets, open_pages=len(OPEN), rate=RATE,
        seconds=scale.seconds, changes=scale.changes,
    )  # fmt: skip
    return Section("consoles", TITLE, definition, "python -m bench consoles", at, rows, notes, "")


def furnish(server: Server, scale: Scale) -> None:
    """Fill the broker with topics and messages, groups with progress, and halves."""
    with Admin(server.namesrv) as admin, Producer("furnish", server.namesrv) as producer:
        for number in range(scale.topics):
            admin.create_topic(TOPIC.format(number), queues=4)
            producer.send(TOPIC.format(number), b"first", keys=[f"key-{number}"])
        for number in range(scale.groups):
            admin.create_group(GROUP.format(number))
            for queue_id in range(4):
                admin.move_group(GROUP.format(number), TOPIC.format(number % scale.topics), queue_id, 0)
    asyncio.run(openhalves.fill(server.namesrv, scale.halves))


def looked_at(one: Installation, server: Server, scale: Scale) -> tuple[list[Row], list[str]]:
    """Measure all pages, and tell what each of them took."""
    client = one.signed_in()
    newest = (f"/topics/{TOPIC.format(scale.topics - 1)}/", f"/groups/{GROUP.format(scale.groups - 1)}/")
    if not wait_until(lambda: all(client.get(path).status_code == 200 for path in newest), timeout_s=120):
        raise RuntimeError("the mirror did not catch up in 120 s")
    pages, session = addresses(server), client.cookies["sessionid"]
    times = {name: served_ms(client, path, scale.requests) for name, path in pages.items()}
    loads = loaded(one.base, session, pages, scale.loads)
    slowest, heaviest = max(times, key=lambda name: times[name]), max(pages, key=lambda name: loads[name].sent_kb)
    latest = max(pages, key=lambda name: loads[name].interactive_ms)
    scripts = {address: kb for load in loads.values() for address, kb in load.scripts.items()}
    open_rows, notes = asyncio.run(kept_open(one, client, server, scale))
    browser_ms = seen_after_ms(one.base, session, server.namesrv, TAIL, 5)
    rows = [
        figure(f"server, p95, the slowest of {len(pages)} pages: {slowest}", times[slowest], "ms", SERVER_MS),
        figure(f"first load, the heaviest: {heaviest}", loads[heaviest].sent_kb, "kB", LOAD_KB),
        figure("JavaScript of all pages", sum(scripts.values()), "kB", SCRIPT_KB),
        figure(f"interactive, the latest: {latest}", loads[latest].interactive_ms, "ms", INTERACTIVE_MS),
        *open_rows,
        figure("a change in Chromium, the slowest of 5", max(browser_ms), "ms", CHANGE_MS),
    ]
    told = (
        f"{name} {times[name]:.0f} ms, {loads[name].sent_kb:.0f} kB, {loads[name].interactive_ms:.0f} ms"
        for name in pages
    )
    return rows, [f"server p95, first load, interactive: {'; '.join(told)}", *notes]


def figure(name: str, value: float, unit: str, limit: float, digits: int = 0) -> Row:
    """Return a row with an upper limit."""
    return Row(name, f"{value:,.{digits}f} {unit}", "", "", f"<= {limit} {unit}", value <= limit)


def addresses(server: Server) -> dict[str, str]:
    """Return the address of each page by its name."""
    now_ms = time.time_ns() // 1_000_000
    with Admin(server.namesrv) as admin:
        timer = admin.timers(now_ms, now_ms + 40 * 86_400_000, limit=1).items[0]
        half = admin.transactions("open").items[0]
        with Producer("shown", server.namesrv) as producer:
            message = producer.send(TAIL, b"shown", keys=["shown"]).offset_message_id
    return {
        "overview": "/", "schedule": "/schedule/", "a delay level": "/schedule/17/", "timers": "/timers/",
        "timers of a minute": "/timers/?zoom=1m", "timers of years": "/timers/?zoom=10y",
        "list of timers": "/timers/list/", "timers by topic": "/timers/list/?topic=Pending",
        "timer by key": "/timers/list/?key=key-4711", "a timer": f"/timers/{timer.position}/",
        "transactions": "/transactions/", "transactions of a group": f"/transactions/?group={openhalves.GROUP}",
        "open halves": "/transactions/list/?state=open", "a transaction": f"/transactions/{half.position}/",
        "topics": "/topics/", "topics found": "/topics/?search=Topic-09", "a topic": "/topics/Topic-0001/",
        "topic of timers": "/topics/Pending/", "topic of halves": f"/topics/{openhalves.TOPIC}/",
        "a queue": "/topics/Topic-0001/0/", "a tail": f"/topics/{TAIL}/tail/",
        "groups": "/groups/", "groups found": "/groups/?search=Group-09", "a group": "/groups/Group-0001/",
        "clients": "/clients/", "messages": "/messages/", "found": f"/messages/?topic={TAIL}&q=shown",
        "a message": f"/messages/{message}/", "places": "/find/?q=Topic-09", "dead letters": "/dead-letters/",
        "delayed queues": "/redisson/", "dashboards": "/dashboards/", "operations": "/operations/",
        "alerts": "/alerts/", "audit": "/audit/", "saved views": "/views/", "two times": "/compare/?from=-1m&to=",
    }  # fmt: skip


def served_ms(client: httpx.Client, path: str, requests: int) -> float:
    """Return the 95th percentile of a page's answers."""
    times: list[float] = []
    for _ in range(requests + 2):
        begin_s = time.perf_counter()
        client.get(path, follow_redirects=True).raise_for_status()
        times.append((time.perf_counter() - begin_s) * 1_000)
    counted = sorted(times[2:])
    p95_ms = share(counted, 0.95)
    print(f"  {path}: median {statistics.median(counted):.0f} ms, p95 {p95_ms:.0f} ms", file=sys.stderr)
    return p95_ms


async def kept_open(
    one: Installation, client: httpx.Client, server: Server, scale: Scale
) -> tuple[list[Row], list[str]]:
    """Measure what open pages cost the broker, and how soon a change is seen among them."""
    session = client.cookies["sessionid"]
    pages = [OPEN[number % len(OPEN)] for number in range(scale.sockets)]
    async with AsyncExitStack() as stack:
        producer = await stack.enter_async_context(AsyncProducer("beside", server.namesrv))
        over = asyncio.Event()

        async def send(number: int) -> None:
            await producer.send(TOPIC.format(number * 7919 % scale.topics), b"beside")

        def changes() -> Awaitable[list[float]]:
            return shown_after_ms(one.base, session, server.namesrv, TAIL, scale.changes)

        alone_ms = await changes()
        sending = asyncio.create_task(at_rate(send, RATE, over))
        await asyncio.sleep(3)
        with busy(server.pid) as without:
            await asyncio.sleep(scale.seconds)
        async with Onlookers(one.base, session, pages) as onlookers:
            await asyncio.sleep(5)
            before = onlookers.frames
            with busy(server.pid) as beside:
                await asyncio.sleep(scale.seconds)
            frames = onlookers.frames - before
            among_ms = await changes()
            lost = onlookers.lost
        over.set()
        await sending
    rows = [
        figure(
            f"{scale.sockets} open consoles, of a core of the broker", beside.percent - without.percent, "%",
            CORE_PERCENT, 1,
        ),
        figure(f"a change among {scale.sockets} open consoles, p95", share(among_ms, 0.95), "ms", CHANGE_MS),
        figure("a change, one page open, p95", share(alone_ms, 0.95), "ms", CHANGE_MS),
    ]  # fmt: skip
    told = (
        f"broker with {scale.sockets} open consoles {beside.percent:.1f} % of a core, without {without.percent:.1f} %"
    )
    middle = [f"median {statistics.median(each):.0f} ms, slowest {each[-1]:.0f} ms" for each in (among_ms, alone_ms)]
    notes = [
        f"{told}; {frames / scale.seconds:,.0f} frames a second in all, {lost} sockets lost",
        f"a change among them: {middle[0]}; with one page open: {middle[1]}",
    ]
    return rows, notes


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
    """Start a Chromium that ends with the block."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium-headless-shell", args=["--no-sandbox"])
        yield browser
        browser.close()


def signed_in(browser: Browser, base: str, session: str) -> BrowserContext:
    """Return a context of the session with an empty cache."""
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
    """Measure the ms from the call of a send to its body on the screen, on the topic's tail."""
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


TIMEOUT_S = 30


@dataclass(slots=True)
class Onlookers:
    """Sockets of one session on some pages, and what they received."""

    base: str
    session: str
    pages: Sequence[str]
    frames: int = 0
    letters: int = 0
    #: sockets that the other side ended
    lost: int = 0
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _reading: list[asyncio.Task[None]] = field(default_factory=list)

    async def __aenter__(self) -> Onlookers:
        for page in self.pages:
            socket = await self._stack.enter_async_context(opened(self.base, self.session, page))
            self._reading.append(asyncio.create_task(self._read(socket)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._reading:
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)
        await self._stack.aclose()

    async def _read(self, socket: ClientConnection) -> None:
        try:
            async for frame in socket:
                self.frames += 1
                self.letters += len(frame)
        except ConnectionClosed:
            pass
        self.lost += 1


def opened(base: str, session: str, page: str) -> connect:
    """Return the socket of a page, to be entered."""
    return connect(
        f"{base.replace('http', 'ws', 1)}/ws/live/{page}", origin=Origin(base), max_size=None, open_timeout=TIMEOUT_S,
        additional_headers={"Cookie": f"sessionid={session}"},
    )  # fmt: skip


async def shown_after_ms(base: str, session: str, namesrv: str, topic: str, count: int) -> list[float]:
    """Measure the ms from the call of a send to the frame of the topic's tail with its body; return them sorted."""
    taken: list[float] = []
    chance = random.Random(7)
    async with AsyncProducer("changes", namesrv) as producer, opened(base, session, f"tail/{topic}") as socket:
        await asyncio.wait_for(socket.recv(), TIMEOUT_S)
        for number in range(count):
            await asyncio.sleep(0.5 + chance.random())
            # never one of a round before: the tail still shows those
            mark = f"change-{number:04}-{time.time_ns()}"
            begin_s = time.monotonic()
            await producer.send(topic, mark.encode())
            while mark not in str(await asyncio.wait_for(socket.recv(), TIMEOUT_S)):
                pass
            taken.append((time.monotonic() - begin_s) * 1_000)
    return sorted(taken)


@dataclass(slots=True)
class Share:
    """Part of a core that a process took, in percent; set when the block ends."""

    percent: float = 0


@contextmanager
def busy(pid: int) -> Iterator[Share]:
    """Measure how busy a process is while the block runs."""
    share, begin_s, used_s = Share(), time.monotonic(), processor_s(pid)
    yield share
    share.percent = (processor_s(pid) - used_s) / (time.monotonic() - begin_s) * 100
