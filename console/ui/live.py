"""Pages that change in place: which there are, and their fragments, rendered once a process however many look on.

A page's template `live/<page>.html` gives `<hx-partial hx-target="#id" hx-swap="outerMorph">` elements; each is a part
that is sent only when it differs from what the socket sent last. Context: `data` (the page's shape), `sequence` (the
mirror's), `live` (True).

A mark tells whether the broker has anything new for a page: while the mark is the same, nothing is new. It holds
numbers that nobody is shown, so pages of users with other permissions may have the same.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl

from channels.db import database_sync_to_async
from django.conf import settings
from django.template.loader import render_to_string
from django.utils import timezone, translation
from django.utils.module_loading import import_string

from console.security.topic_scope import NOTHING, VisibleTopics, scoped
from console.site.chosen import ALL, Choice, choosing, split
from console.site.clock import simulated
from console.site.parsing import whole_number
from console.ui.preferences import zone_of

#: renderings at the same time; each may wait for the broker
RENDER_THREADS = 3
#: rendered pages kept, of all languages
KEPT = 128
#: from one rendering to the next at least: what moves all the time is shown three times a second
SPACING_S = 0.3
#: a page whose mark is read from the mirror is looked at as often while nothing of it moves
LOOK_S = 0.1
#: a page that is costly is made anew only after so many times what it took
REST_RATIO = 4
#: part of the process's time that all live pages together may take; those made within OPEN_S count as open
LIVE_SHARE, OPEN_S = 0.4, 6.0
#: charts over time are shown for so long as they are
CHARTS_S = 10.0
#: what is older is rendered again even if the mirror did not move: ages and staleness show
FRESH_S = 2.0

#: the element that a part is sent in
_ELEMENT = "hx-partial"
_PART = re.compile(rf"<{_ELEMENT}\b.*?</{_ELEMENT}>", re.DOTALL)
_TARGET = re.compile(r'\bhx-target="([^"]*)"')
_pool = ThreadPoolExecutor(RENDER_THREADS, thread_name_prefix="live")

#: target -> the whole element
Parts = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LivePage:
    """A page as one socket wants it; equal pages share their rendering."""

    name: str
    argument: str = ""
    query: tuple[tuple[str, str], ...] = ()
    #: what the one who looks may see; nothing until it is said
    visible: VisibleTopics = NOTHING
    #: the brokers that it is about
    choice: Choice = ALL
    #: the zone of its moments, "" for that of the settings
    zone: str = ""

    @property
    def template(self) -> str:
        """The name of the template of its fragments."""
        return f"live/{self.name}.html"

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of mirror rows that it shows."""
        return live_pages()[self.name].kinds | {"mirror"}

    def read(self) -> object:
        """Read what the page shows, from the database and the broker."""
        return live_pages()[self.name].read(self.argument, dict(self.query))

    def charts(self) -> object:
        """Read the page's charts over time; None where it has none, or shows a stretch that is over."""
        read, query = live_pages()[self.name].charts, dict(self.query)
        return read(self.argument, query) if read is not None and "over" in query else None

    def mark(self) -> Hashable:
        """Return a value that differs as soon as the broker has anything new for the page, and costs little to get.

        None: it is not known, or the kinds of mirror rows say it well enough.
        """
        mark = live_pages()[self.name].mark
        return mark(self.argument) if mark else None

    @property
    def is_near(self) -> bool:
        """Tell whether the mark is in the mirror: to get it costs the broker nothing, and this process little."""
        return live_pages()[self.name].is_near


@dataclass(frozen=True, slots=True)
class LiveKind:
    """A kind of page that changes in place: the way to read it, and the changes that move it."""

    read: Callable[[str, Mapping[str, str]], object]
    kinds: frozenset[str]
    #: query parameters that it knows
    parameters: frozenset[str] = frozenset()
    takes_argument: bool = False
    #: the argument is a whole number
    is_numbered: bool = False
    #: as LivePage.mark; every message on any topic moves "queues", and what the broker is asked for need not have moved
    mark: Callable[[str], Hashable] | None = None
    is_near: bool = False
    #: charts over time, of pages whose address says `over`; they move by the minute, and are made anew less often
    charts: Callable[[str, Mapping[str, str]], object] | None = None


def live_pages() -> Mapping[str, LiveKind]:
    """Return the kinds of pages that change in place, as `settings.LIVE_PAGES` names them."""
    found: Mapping[str, LiveKind] = import_string(settings.LIVE_PAGES)
    return found


def page_of(path: str, query: str = "") -> LivePage | None:
    """Return the page that a socket's address names (`overview`, `topic/orders`, `at/broker-a/lane/3?offset=40`), or
    None."""
    choice, path = split(f"/{path.strip('/')}")
    name, _, argument = path.strip("/").partition("/")
    kind = live_pages().get(name)
    if kind is None or bool(argument) != kind.takes_argument or len(argument) > 255:
        return None
    if kind.is_numbered and whole_number(argument) is None:
        return None
    try:
        pairs = parse_qsl(query, max_num_fields=16, errors="strict")
    except ValueError:
        return None
    asked = tuple(sorted((key, text[:255]) for key, text in pairs if key in kind.parameters))
    return LivePage(name, argument, asked, choice=choice)


@dataclass(frozen=True, slots=True)
class _Kept:
    sequence: int
    made_s: float
    #: of the processor: waiting for the broker, or for others that render, takes nothing from anybody
    took_s: float
    parts: Parts
    #: LivePage.mark, from before it was read
    mark: Hashable
    #: when its mark was last found not to have moved, and what that took; 0: not yet
    looked_s: float = 0.0
    #: the charts over time, and when they were made
    charts: str = ""
    charts_s: float = float("-inf")
    look_took_s: float = 0.0


@dataclass(slots=True)
class Fragments:
    """Renderings of this process; callers of one moment share one. Belongs to one event loop at a time."""

    _kept: OrderedDict[tuple[LivePage, str], _Kept] = field(default_factory=OrderedDict)
    #: with the sequence that was asked for
    _making: dict[tuple[LivePage, str], tuple[int, asyncio.Task[_Kept]]] = field(default_factory=dict)

    async def parts(self, page: LivePage, language: str, sequence: int) -> Parts:
        """Return the page's parts at this sequence or later, at most FRESH_S old, or as old as it rests."""
        key = (page, language)
        kept, until_s = self._kept.get(key), self.due_s(page, language)
        if kept and kept.sequence >= sequence and time.monotonic() < max(kept.made_s + FRESH_S, until_s):
            return kept.parts
        asked, task = self._making.get(key, (0, None))
        if task is None or asked < sequence or task.get_loop() is not asyncio.get_running_loop():
            task = asyncio.get_running_loop().create_task(self._make(page, language, sequence))
            self._making[key] = making = (sequence, task)
            task.add_done_callback(lambda _: self._over(key, making))
        return (await asyncio.shield(task)).parts

    async def shared(self, page: LivePage, language: str) -> Parts:
        """Return the parts that are being made just now, or those that were made last."""
        _, task = self._making.get((page, language), (0, None))
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            return (await asyncio.shield(task)).parts
        return await self.parts(page, language, 0)

    def shown(self, page: LivePage, language: str) -> int:
        """Return the sequence of what was made last."""
        kept = self._kept.get((page, language))
        return kept.sequence if kept is not None else 0

    def is_due(self, page: LivePage, language: str) -> bool:
        """Tell whether the page may be made anew: it has rested, and nobody makes it just now."""
        return (page, language) not in self._making and time.monotonic() >= self.due_s(page, language)

    def due_s(self, page: LivePage, language: str) -> float:
        """Return when (time.monotonic) the page has rested, for all that have it open: with a rest for each of them it
        would be made once for each. The more pages are kept up to date, the longer each rests, so that together
        they take a part of this process and those that cost little do not wait for those that cost much."""
        kept, since_s = self._kept.get((page, language)), time.monotonic() - OPEN_S
        if kept is None:
            return 0.0
        ratio = max(REST_RATIO, sum(1 for each in self._kept.values() if each.made_s > since_s) / LIVE_SHARE)
        rest_s = max(SPACING_S, kept.took_s * ratio)
        if not page.is_near:
            return max(kept.made_s, kept.looked_s) + rest_s
        return max(kept.made_s + rest_s, kept.looked_s + max(LOOK_S, kept.look_took_s * ratio))

    def forget(self) -> None:
        """Keep nothing: the next page is rendered anew."""
        self._kept.clear()
        self._making.clear()

    async def _make(self, page: LivePage, language: str, sequence: int) -> _Kept:
        render = database_sync_to_async(_made, thread_sensitive=False, executor=_pool)
        kept = await render(page, language, sequence, self._kept.get((page, language)))
        self._kept[page, language] = kept
        self._kept.move_to_end((page, language))
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return kept

    def _over(self, key: tuple[LivePage, str], making: tuple[int, asyncio.Task[_Kept]]) -> None:
        """Note that the page is not being made any more, unless somebody asked for a later one."""
        if self._making.get(key) is making:
            del self._making[key]


fragments = Fragments()


def _render(page: LivePage, language: str, sequence: int, charts: str | None) -> tuple[Parts, str]:
    """Return the parts, and those of the charts among them as they were, or made anew if there are none."""
    in_zone = timezone.override(zone_of(page.zone))
    with translation.override(language), in_zone, scoped(page.visible), choosing(page.choice):
        html = render_to_string(page.template, {"data": page.read(), "sequence": sequence, "live": True})
        # behind what the page is about: that it may be seen is known by then
        if charts is None:
            over = page.charts()
            charts = "" if over is None else render_to_string("live/over_time.html", {"over": over})
        line = simulated()
        clockline = "" if line is None else render_to_string("live/clockline.html", {"simulated": line})
        return parts_of(html + charts + clockline), charts


def _made(page: LivePage, language: str, sequence: int, kept: _Kept | None) -> _Kept:
    """Return the page made anew, or the one that is kept where its mark says nothing moved and it is not too old."""
    begun_s, used_s = time.monotonic(), time.thread_time()
    with choosing(page.choice):
        mark = page.mark()
    if kept is not None and mark is not None and mark == kept.mark and begun_s - kept.made_s < FRESH_S:
        took_s = time.thread_time() - used_s
        return replace(kept, sequence=max(sequence, kept.sequence), looked_s=begun_s, look_took_s=took_s)
    is_fresh = kept is not None and begun_s - kept.charts_s < CHARTS_S
    parts, charts = _render(page, language, sequence, kept.charts if kept is not None and is_fresh else None)
    charts_s = kept.charts_s if kept is not None and is_fresh else begun_s
    took_s = time.thread_time() - used_s
    return _Kept(sequence, begun_s, took_s, parts, mark, charts=charts, charts_s=charts_s)


def parts_of(html: str) -> Parts:
    """Return the partial elements of a rendered template by their target; what stands between them is left out."""
    found = {}
    for match in _PART.finditer(html):
        target = _TARGET.search(match.group())
        found[target.group(1) if target else str(match.start())] = match.group()
    return found
