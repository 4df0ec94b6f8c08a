"""The websocket of a page: who may open it, what it sends, when it ends. Real sessions, PostgreSQL and Valkey."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket as sockets_of_system
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import websockets
from asgiref.sync import sync_to_async
from channels.auth import AuthMiddlewareStack
from channels.layers import channel_layers, get_channel_layer
from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.conf import settings as django_settings
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.db import connections
from django.test import Client
from django.urls import path

from broker.mirror.announcer import Announcer
from console.security.gate import VIEWER
from console.security.models import TopicPermission
from console.ui import live, sockets
from console.ui.live import Fragments
from console.ui.sockets import LiveConsumer
from tests.console.people import person
from tests.waiting import until_true
from tests.watching import Calls

application = AllowedHostsOriginValidator(
    AuthMiddlewareStack(URLRouter([path("ws/live/<path:page>", LiveConsumer.as_asgi())]))
)
TEMPLATE = (
    "{% load i18n %}\n"
    '<hx-partial hx-target="#a" hx-swap="outerMorph"><p id="a">{% translate "Unknown" %}</p></hx-partial>\n'
    '<hx-partial hx-target="#n" hx-swap="outerMorph"><p id="n">{{ sequence }}</p></hx-partial>\n'
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path, valkey: str) -> None:
    """A template of the test's own, short intervals, and no database connection that outlives its call."""
    (tmp_path / "live").mkdir()
    (tmp_path / "live" / "schedule.html").write_text(TEMPLATE)
    engine = {**settings.TEMPLATES[0], "DIRS": [tmp_path]}
    settings.TEMPLATES = [engine]
    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    settings.LANGUAGES = [*settings.LANGUAGES, ("de", "German")]
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)
    monkeypatch.setattr(sockets, "COALESCE_S", 0.01)
    monkeypatch.setattr(live, "SPACING_S", 0.01)
    monkeypatch.setattr(live, "REST_RATIO", 0)
    monkeypatch.setattr(live, "LIVE_SHARE", 1_000)
    live.fragments.forget()


@pytest.fixture
def client(transactional_db: None) -> Client:
    user = person("operator")
    browser = Client()
    browser.force_login(user)
    return browser


@pytest.fixture
def later() -> int:
    """A sequence of the mirror's that is beyond all that this process was told."""
    return sockets.announcements.sequence + 1


@pytest.fixture
def announcer(valkey: str) -> Iterator[Announcer]:
    teller = Announcer(spacing_s=0.01)
    yield teller
    teller.close()


class Site:
    """A real server of the socket application."""

    def __init__(self, port: int) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        self._base = f"ws://127.0.0.1:{port}/ws/live/"

    @asynccontextmanager
    async def page(
        self, client: Client | None, page: str = "schedule", *, origin: str | None = None, cookies: str = ""
    ) -> AsyncIterator[websockets.ClientConnection]:
        name = django_settings.SESSION_COOKIE_NAME
        session = f"{name}={client.cookies[name].value}; " if client else ""
        headers = {"Cookie": session + cookies, "Origin": self.origin if origin is None else origin}
        async with websockets.connect(self._base + page, additional_headers=headers) as connection:
            yield connection


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    listening = sockets_of_system.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        application, ws="websockets-sansio", lifespan="off", log_config=None, timeout_graceful_shutdown=1
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup([listening])
    yield Site(listening.getsockname()[1])
    await server.shutdown([listening])
    # its connections and locks belong to this event loop: the next test has a layer of its own
    layer: Any = get_channel_layer()
    await layer.close_pools()
    channel_layers.backends.clear()


async def frame(page: websockets.ClientConnection) -> str:
    return str(await asyncio.wait_for(page.recv(), 5))


async def shown(page: websockets.ClientConnection, sequence: int) -> None:
    while f">{sequence}<" not in await frame(page):
        pass


async def close_code(page: websockets.ClientConnection) -> int | None:
    async def drained() -> None:
        async for _ in page:
            pass

    with contextlib.suppress(websockets.ConnectionClosedError):
        await asyncio.wait_for(drained(), 5)
    return page.close_code


async def test_snapshot_comes_first(site: Site, client: Client) -> None:
    async with site.page(client) as page:
        snapshot = await frame(page)
    assert 'hx-target="#a"' in snapshot
    assert 'hx-target="#n"' in snapshot


async def test_only_changed_parts_follow(site: Site, client: Client, announcer: Announcer, later: int) -> None:
    async with site.page(client) as page:
        await frame(page)
        announcer.announce(later, {"levels"})
        update = await frame(page)
    assert f'<p id="n">{later}</p>' in update
    assert 'hx-target="#a"' not in update


async def test_other_kinds_do_not_wake_the_page(
    site: Site, client: Client, announcer: Announcer, monkeypatch: pytest.MonkeyPatch, later: int
) -> None:
    """Its heartbeats come and show what they showed before; only what it shows itself moves it."""
    monkeypatch.setattr(sockets, "HEARTBEAT_S", 0.05)
    shown_of: list[int | None] = []
    with Calls(LiveConsumer._show, before=lambda given: shown_of.append(given["sequence"])) as shows:
        async with site.page(client) as page:
            await frame(page)
            announcer.announce(later, {"offsets"})
            await until_true(lambda: sockets.announcements.sequence == later)
            told = shows.count
            await until_true(lambda: shows.count >= told + 3)
            assert later not in shown_of
            announcer.announce(later + 1, {"levels"})
            await shown(page, later + 1)


async def test_language_is_the_readers(site: Site, client: Client) -> None:
    async with site.page(client, cookies=f"{django_settings.LANGUAGE_COOKIE_NAME}=de") as page:
        assert '<p id="a">Unbekannt</p>' in await frame(page)


@pytest.mark.parametrize(
    ("cookies", "accepted", "expected"),
    [
        ({"django_language": "zh-hans"}, "en", "zh-hans"),
        ({}, "zh-CN,en;q=0.3", "zh-hans"),
        ({}, "xx", "en"),
        ({"django_language": "<nonsense>"}, "", "en"),
    ],
)
def test_language_from_cookie_then_browser(cookies: dict[str, str], accepted: str, expected: str) -> None:
    scope = {"headers": [(b"accept-language", accepted.encode())], "cookies": cookies}
    assert sockets.language_of(scope) == expected


async def test_strangers_are_refused(site: Site, transactional_db: None) -> None:
    with pytest.raises(websockets.InvalidStatus, match="403"):
        async with site.page(None):
            pass


@pytest.mark.parametrize("origin", ["http://elsewhere.test", "http://127.0.0.1:1", "null", ""])
async def test_other_origins_are_refused(site: Site, client: Client, origin: str) -> None:
    with pytest.raises(websockets.InvalidStatus, match="403"):
        async with site.page(client, origin=origin):
            pass


@pytest.mark.parametrize("path", ["nothing", "topic", "schedule/3", "lane/x", "lane/-1", "groups"])
async def test_unknown_pages_end_with_a_code(site: Site, client: Client, path: str) -> None:
    async with site.page(client, path) as page:
        assert await close_code(page) == sockets.NO_SUCH_PAGE


def sign_out() -> None:
    Session.objects.all().delete()


def deactivate() -> None:
    User.objects.update(is_active=False)


def take_the_role() -> None:
    User.objects.get().groups.clear()


def take_what_the_role_may() -> None:
    Group.objects.get(name=VIEWER).permissions.clear()


def limit_the_topics() -> None:
    TopicPermission.objects.create(group=Group.objects.get(name=VIEWER), pattern="a-*")


def change_the_password() -> None:
    user = User.objects.get()
    user.set_password("another long secret")
    user.save()


LOSSES = [sign_out, deactivate, take_the_role, take_what_the_role_may, limit_the_topics, change_the_password]


@pytest.mark.parametrize("lose", LOSSES)
async def test_whose_rights_end_loses_the_page_though_nothing_happens_on_it(
    site: Site, client: Client, monkeypatch: pytest.MonkeyPatch, lose: Callable[[], None]
) -> None:
    monkeypatch.setattr(sockets, "LOOK_S", 0.05)
    monkeypatch.setattr(sockets, "HEARTBEAT_S", 3_600)
    async with site.page(client) as page:
        await frame(page)
        await sync_to_async(lose)()
        assert await close_code(page) == sockets.SESSION_ENDED


@pytest.mark.parametrize("lose", LOSSES)
async def test_whose_rights_end_is_shown_nothing_new(
    site: Site,
    client: Client,
    announcer: Announcer,
    monkeypatch: pytest.MonkeyPatch,
    lose: Callable[[], None],
    later: int,
) -> None:
    monkeypatch.setattr(sockets, "LOOK_S", 3_600)
    monkeypatch.setattr(sockets, "FRESH_S", 0)
    async with site.page(client) as page:
        await frame(page)
        await sync_to_async(lose)()
        announcer.announce(later, {"levels"})
        with pytest.raises(websockets.ConnectionClosedError):
            await frame(page)
        assert page.close_code == sockets.SESSION_ENDED


async def test_rights_that_change_to_the_same_keep_the_page(
    site: Site, client: Client, announcer: Announcer, monkeypatch: pytest.MonkeyPatch, later: int
) -> None:
    monkeypatch.setattr(sockets, "LOOK_S", 0.05)
    monkeypatch.setattr(sockets, "FRESH_S", 0)
    async with site.page(client) as page:
        await frame(page)
        await sync_to_async(lambda: User.objects.get().groups.add(Group.objects.create(name="nothing more")))()
        announcer.announce(later, {"levels"})
        await shown(page, later)


def test_rights_are_looked_at_often_enough() -> None:
    """Closed within 5 s: a look may be under way when they end, and the next begins LOOK_S later."""
    assert sockets.LOOK_S <= 2


async def test_one_look_is_for_all_who_ask_at_once(site: Site, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "LOOK_S", 3_600)
    async with contextlib.AsyncExitStack() as stack:
        pages = [await stack.enter_async_context(site.page(client)) for _ in range(3)]
        await asyncio.gather(*map(frame, pages))
        monkeypatch.setattr(sockets, "FRESH_S", 0)
        # a page of another test may be about to leave
        session = client.cookies[django_settings.SESSION_COOKIE_NAME].value
        watches = tuple(each for each in sockets.standings._watches if each.key == session)
        assert len(watches) == 3
        with Calls(sockets.Standings._read) as looks:
            marks = await asyncio.gather(*map(sockets.standings.mark_of, watches))
    assert len(set(marks)) == 1
    assert looks.count == 1


async def test_a_page_that_talks_too_much_is_closed(site: Site, client: Client) -> None:
    async with site.page(client) as page:
        await frame(page)
        await page.send("x" * (sockets.INBOUND_BYTES + 1))
        assert await close_code(page) == sockets.TOO_MUCH


async def test_without_a_layer_the_page_is_read_all_the_same(site: Site, client: Client, settings: Any) -> None:
    lost = {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": {"hosts": ["redis://127.0.0.1:1/0"]}}
    settings.CHANNEL_LAYERS = {"default": lost}
    async with site.page(client) as page:
        assert 'hx-target="#a"' in await frame(page)


async def test_a_quiet_layer_is_no_lost_layer() -> None:
    layer: Any = get_channel_layer()
    patience_s = layer.connection(0).connection_pool.connection_kwargs["socket_timeout"]
    assert patience_s > layer.brpop_timeout + 5


@pytest.fixture
def rendered() -> Iterator[list[tuple[int, float]]]:
    """Every rendering from now on: what it was of (a sequence of the mirror's), and when it began, in monotonic s."""
    seen: list[tuple[int, float]] = []
    with Calls(Fragments._make, before=lambda given: seen.append((given["sequence"], time.monotonic()))):
        yield seen


def sequences_of(rendered: list[tuple[int, float]]) -> list[int]:
    return [sequence for sequence, _ in rendered]


async def test_many_sockets_share_one_rendering(
    site: Site, client: Client, announcer: Announcer, rendered: list[tuple[int, float]], later: int
) -> None:
    async with site.page(client) as one, site.page(client) as two, site.page(client) as three:
        pages = (one, two, three)
        await asyncio.gather(*map(frame, pages))
        announcer.announce(later, {"levels"})
        updates = await asyncio.gather(*map(frame, pages))
    assert all(f">{later}<" in update for update in updates)
    assert sequences_of(rendered).count(later) == 1


async def test_sockets_that_came_one_after_another_share_renderings_all_the_same(
    site: Site,
    client: Client,
    announcer: Announcer,
    monkeypatch: pytest.MonkeyPatch,
    rendered: list[tuple[int, float]],
    later: int,
) -> None:
    monkeypatch.setattr(live, "SPACING_S", 0.2)
    sequences = itertools.count(later)

    async def read(page: websockets.ClientConnection, frames: int) -> None:
        for _ in range(frames):
            await frame(page)
            announcer.announce(next(sequences), {"levels"})

    async with contextlib.AsyncExitStack() as stack:
        pages = []
        for _ in range(5):
            # what is announced goes on and on, and each finds the others at another moment between two renderings
            pages.append(await stack.enter_async_context(site.page(client)))
            await asyncio.gather(*(read(page, 1) for page in pages))
        snapshots = len(rendered)
        await asyncio.gather(*(read(page, 8) for page in pages))
        # nothing is on its way any more when the pages are closed
        last = next(sequences)
        announcer.announce(last, {"levels"})
        await asyncio.gather(*(shown(page, last) for page in pages))
    begun_s = [at_s for _, at_s in rendered[snapshots:]]
    gaps_s = [later - first for first, later in itertools.pairwise(begun_s)]
    assert gaps_s
    assert min(gaps_s) >= 0.2


async def test_a_page_that_nothing_happens_on_is_rendered_once_for_what_was_told_once(
    site: Site,
    client: Client,
    announcer: Announcer,
    monkeypatch: pytest.MonkeyPatch,
    rendered: list[tuple[int, float]],
    later: int,
) -> None:
    monkeypatch.setattr(sockets, "HEARTBEAT_S", 60)
    async with site.page(client) as one, site.page(client) as two:
        await asyncio.gather(frame(one), frame(two))
        for sequence in (later, later + 1):
            announcer.announce(sequence, {"levels"})
            await asyncio.gather(*(shown(page, sequence) for page in (one, two)))
    sequences = sequences_of(rendered)
    assert (sequences.count(later), sequences.count(later + 1), sequences[-1]) == (1, 1, later + 1)
