"""The console, its mirror and its people on a cluster of Apache RocketMQ, for a test."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from typing import Any
from urllib.parse import unquote, urlsplit

from django.test import Client
from django.urls import resolve
from django.urls.exceptions import Resolver404

from broker.client import Admin, ClientError, Producer, SendResult
from broker.mirror.cluster import follow
from broker.mirror.models import MirrorState, Queue, Replica
from tests.console.kept import hang_up
from tests.waiting import until

#: a topic of a polled broker has its turn within a second, while it has not many more; listed every ten
MIRRORED_S = 120


class Stage:
    """A cluster that the console's settings point at, mirrored while a test runs."""

    def __init__(self, namesrv: str, names: tuple[str, ...]) -> None:
        self.namesrv, self.names = namesrv, names
        self.admins = {name: Admin(namesrv, broker=name) for name in names}
        self.producer = Producer("engine-shop", namesrv)

    def create(self, *topics: str, queues: int = 2) -> None:
        """Create topics at every broker, and wait until routes have all of them."""
        for topic in topics:
            for admin in self.admins.values():
                admin.create_topic(topic, queues=queues)
            until(lambda name=topic: len(self._parts(name)) == queues * len(self.names), not_yet=(ClientError,))

    def send_to_each(self, topic: str, body: str, **more: Any) -> dict[str, SendResult]:
        """Send until every broker has taken one; the last of each."""
        sent: dict[str, SendResult] = {}
        for _ in range(40):
            result = self.producer.send(topic, body, **more)
            sent[result.broker] = result
            if len(sent) == len(self.names):
                return sent
        raise AssertionError(f"40 messages went to {sorted(sent)} only")

    def stored(self, topic: str) -> Counter[str]:
        """The bodies of all messages of a topic, of all brokers."""
        found: Counter[str] = Counter()
        for name, admin in self.admins.items():
            for part in admin.topic_stats(topic).queues:
                for offset in range(part.min_offset, part.max_offset, 8):
                    page = admin.pull(topic, part.queue.queue_id, offset, 8, broker=name)
                    found.update(message.body.decode() for message in page if message.queue_offset < offset + 8)
        return found

    def await_mirrored(self, topic: str, counts: dict[str, int]) -> None:
        """Wait until the rows have so many messages of a topic at each of these brokers."""

        def mirrored() -> dict[str, int]:
            ends: Counter[str] = Counter()
            for broker, end in Queue.objects.filter(topic=topic).values_list("broker", "max_offset"):
                ends[broker] += end or 0
            return {name: ends[name] for name in counts}

        until(lambda: mirrored() == counts, MIRRORED_S)

    def close(self) -> None:
        """End all connections."""
        self.producer.close()
        for admin in self.admins.values():
            admin.close()
        hang_up()

    def _parts(self, topic: str) -> tuple[Any, ...]:
        with Admin(self.namesrv) as fresh:
            return fresh.route(topic).readable()


@contextmanager
def staged(namesrv: str, names: tuple[str, ...], settings: Any, processes: int) -> Iterator[Stage]:
    """The settings point at this cluster and its mirror runs, until the block ends."""
    settings.ESCAPEMENT_NAMESRV = namesrv
    stop = threading.Event()
    thread = threading.Thread(target=follow, args=({"": namesrv}, stop))
    thread.start()
    stage = Stage(namesrv, names)
    try:
        until(lambda: MirrorState.objects.filter(error="", as_of_ms__gt=0).count() == len(names), MIRRORED_S)
        until(lambda: Replica.objects.filter(error="").count() == processes, MIRRORED_S)
        yield stage
    finally:
        stop.set()
        # a reading of a broker that has just died asks for each of its topics until the time-out
        thread.join(120)
        stage.close()
        assert not thread.is_alive(), "the mirror still reads"


#: pages of one kind that are looked at for each choice of broker
PAGES_OF_A_KIND = 3
_LINK = re.compile(r'href="(/[^"#]*)')
_LEFT_OUT = ("/static/", "/admin/", "/api/", "/logout", "/theme", "/login")


def crawled(browser: Client, *starts: str) -> tuple[set[str], list[str]]:
    """Follow links from these pages on, some of each kind for each broker: what was opened, and what failed, where."""
    opened: set[str] = set()
    failed: list[str] = []
    seen: Counter[tuple[str, str]] = Counter()
    waiting = [(start, "") for start in starts]
    known = set(starts)
    while waiting:
        address, origin = waiting.pop(0)
        answer = browser.get(address, follow=True)
        opened.add(address)
        if answer.status_code != 200:
            failed.append(f"{answer.status_code} {address}, linked on {origin}")
        if not answer.headers.get("Content-Type", "").startswith("text/html") or answer.streaming:
            continue
        for link in _links(answer.content.decode(), known):
            kind = _kind(link)
            if kind is not None and seen[kind] < PAGES_OF_A_KIND:
                seen[kind] += 1
                known.add(link)
                waiting.append((link, address))
    return opened, failed


def _links(page: str, known: set[str]) -> list[str]:
    """The addresses on a page that are not known yet."""
    return [link for link in dict.fromkeys(map(unescape, _LINK.findall(page))) if link not in known]


def _kind(link: str) -> tuple[str, str] | None:
    """The broker that a link chooses and the name of its page; None of what is no page."""
    if link.startswith(_LEFT_OUT):
        return None
    path = unquote(urlsplit(link).path)
    chosen = ""
    if path.startswith("/at/"):
        _, _, chosen, *rest = path.split("/")
        path = f"/{'/'.join(rest)}"
    try:
        name = resolve(path).url_name or ""
    except Resolver404:
        return None
    # the picker leads there, and a client that is connected elsewhere has no page there
    return None if chosen and name == "client" else (chosen, name)
