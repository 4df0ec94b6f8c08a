"""The console at large scale: every page, its first load in Chromium, and two hundred of them kept open.

`--store A`: a store that `bench.filling` filled with timers before (what it printed in `A.told`); a copy is used.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench import openhalves
from bench.browsing import loaded, seen_after_ms
from bench.house import House, house
from bench.onlookers import Onlookers, busy, shown_after_ms
from bench.pace import at_rate
from bench.peers import make, work_directory
from bench.pending import copied, filled
from bench.rows import Row, Section
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
    """How much of everything."""

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
    """A broker with all of it, and a house that follows it."""
    scale = QUICK if options.quick else Scale()
    with work_directory() as base:
        server = make("escapement", base, "async")
        server.root.parent.mkdir(parents=True, exist_ok=True)
        taken = copied(Path(options.store), server.root) if options.store else filled(scale.pending, server.root)
        server.start()
        try:
            furnish(server, scale)
            with house(base, server.namesrv) as one:
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
    """Topics with messages, groups with progress, halves."""
    with Admin(server.namesrv) as admin, Producer("furnish", server.namesrv) as producer:
        for number in range(scale.topics):
            admin.create_topic(TOPIC.format(number), queues=4)
            producer.send(TOPIC.format(number), b"first", keys=[f"key-{number}"])
        for number in range(scale.groups):
            admin.create_group(GROUP.format(number))
            for queue_id in range(4):
                admin.move_group(GROUP.format(number), TOPIC.format(number % scale.topics), queue_id, 0)
    asyncio.run(openhalves.fill(server.namesrv, scale.halves))


def looked_at(one: House, server: Server, scale: Scale) -> tuple[list[Row], list[str]]:
    """All figures."""
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
    """A row with an upper limit."""
    return Row(name, f"{value:,.{digits}f} {unit}", "", "", f"<= {limit} {unit}", value <= limit)


def addresses(server: Server) -> dict[str, str]:
    """A page's name -> its address."""
    now_ms = time.time_ns() // 1_000_000
    with Admin(server.namesrv) as admin:
        timer = admin.timers(now_ms, now_ms + 40 * 86_400_000, limit=1).items[0]
        half = admin.transactions("open").items[0]
        with Producer("shown", server.namesrv) as producer:
            message = producer.send(TAIL, b"shown", keys=["shown"]).offset_message_id
    return {
        "overview": "/", "schedule": "/schedule/", "a lane": "/schedule/17/", "timers": "/timers/",
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
        "alerts": "/alerts/", "audit": "/audit/", "saved views": "/views/", "two moments": "/compare/?from=-1m&to=",
    }  # fmt: skip


def served_ms(client: httpx.Client, path: str, requests: int) -> float:
    """The 95th percentile of a page's answers."""
    times: list[float] = []
    for _ in range(requests + 2):
        begin_s = time.perf_counter()
        client.get(path, follow_redirects=True).raise_for_status()
        times.append((time.perf_counter() - begin_s) * 1_000)
    counted = sorted(times[2:])
    p95_ms = openhalves.share(counted, 0.95)
    print(f"  {path}: median {statistics.median(counted):.0f} ms, p95 {p95_ms:.0f} ms", file=sys.stderr)
    return p95_ms


async def kept_open(one: House, client: httpx.Client, server: Server, scale: Scale) -> tuple[list[Row], list[str]]:
    """What open pages cost the broker, and how soon a change is seen among them."""
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
        figure(f"a change among {scale.sockets} open consoles, p95", openhalves.share(among_ms, 0.95), "ms", CHANGE_MS),
        figure("a change, one page open, p95", openhalves.share(alone_ms, 0.95), "ms", CHANGE_MS),
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
