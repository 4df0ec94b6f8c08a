"""The websocket behind every page that changes in place: signed-in sessions only, the server speaks, the page listens.

A frame is HTML: `<hx-partial>` elements for htmx. The first frame is a snapshot, later ones hold the parts that
changed. Close codes of our own: 4401 the session has ended, 4404 no such page, 1008 the page talked too much.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError
from django.http import Http404
from django.template import TemplateDoesNotExist
from django.template.loader import get_template
from django.utils.translation import get_supported_language_variant
from django.utils.translation.trans_real import parse_accept_lang_header

from console.site.announcements import announcements
from console.site.session_checks import Watch, seen, standings
from console.ui.live import LivePage, fragments, page_of

logger = logging.getLogger(__name__)

SESSION_ENDED = 4401
NO_SUCH_PAGE = 4404
TOO_MUCH = 1008
TRY_LATER = 1013

#: announcements that arrive within this time are one frame; the mirror itself merges those of a tenth of a second
COALESCE_S = 0.02
#: a page that could not be rendered is tried again after this time at the earliest
RETRY_S = 0.3
#: without any announcement the page is read again: ages, and that the mirror stands still, must show
HEARTBEAT_S = 3.0
#: frames that a page may send in its life, and their length: it has nothing to say
INBOUND_FRAMES = 20
INBOUND_BYTES = 1_024
#: sockets of one process
MAX_SOCKETS = 1_000


class LiveConsumer(AsyncWebsocketConsumer):
    """The websocket of one open page."""

    # the announcements have one listener a process (console.site.announcements), not a layer channel a socket
    channel_layer_alias = "none"

    async def connect(self) -> None:
        """Refuse strangers and other origins in the handshake; then send a snapshot, and later what changes."""
        self._serving: asyncio.Task[None] | None = None
        self._judging: asyncio.Task[None] | None = None
        self._watch: Watch | None = None
        self._heard = 0
        self._is_ended = False
        key = self.scope["session"].session_key if "session" in self.scope else None
        if not key or not same_origin(self.scope):
            await self.close()
            return
        # watched first: what changes while the rights are worked out is seen to have changed
        self._watch = watch = standings.join(key, self._judge)
        visible = None
        try:
            watch.mark = await standings.mark_of(watch)
            visible = await seen(key) if watch.mark is not None else None
        finally:
            if visible is None:
                standings.leave(watch)
        if visible is None:
            await self.close()
            return
        await self.accept()
        page = page_of(self.scope["url_route"]["kwargs"]["page"], self.scope["query_string"].decode("latin-1"))
        if page is None or not await asyncio.to_thread(_has_template, page):
            await self.close(NO_SUCH_PAGE)
        elif len(announcements) >= MAX_SOCKETS:
            await self.close(TRY_LATER)
        else:
            self._page = replace(page, visible=visible)
            self._serving = asyncio.create_task(self._serve(self._page, language_of(self.scope)))

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Ignore a few short frames, as a page has nothing to say; more end the connection."""
        self._heard += 1
        if self._heard > INBOUND_FRAMES or len(text_data or bytes_data or "") > INBOUND_BYTES:
            await self.close(TOO_MUCH)

    async def disconnect(self, code: int) -> None:
        """Stop the work for a page that is gone."""
        if self._watch is not None:
            standings.leave(self._watch)
        for task in (self._judging, self._serving):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def _serve(self, page: LivePage, language: str) -> None:
        wake = asyncio.Event()
        sequence = announcements.sequence

        def note(told: int, kinds: frozenset[str]) -> None:
            nonlocal sequence
            if kinds & page.kinds:
                sequence = told
                wake.set()

        announcements.join(note)
        try:
            sent: dict[str, str] = {}
            wanted: int | None = sequence
            while not self._is_ended:
                is_shown = await self._show(page, language, wanted, sent)
                if is_shown and fragments.shown(page, language) < sequence:
                    wake.set()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(wake.wait(), HEARTBEAT_S)
                rest_s = fragments.due_s(page, language) - monotonic() if is_shown else RETRY_S
                await asyncio.sleep(max(COALESCE_S, rest_s))
                wake.clear()
                # if somebody else has it made meanwhile, that is shown now, and what is newer when it has rested
                wanted = sequence if fragments.is_due(page, language) else None
        finally:
            await announcements.leave(note)

    async def _show(self, page: LivePage, language: str, sequence: int | None, sent: dict[str, str]) -> bool:
        """Send the parts that differ from what was sent last; sequence None: as others have the page made. False: it
        could not be rendered."""
        try:
            if sequence is None:
                parts = await fragments.shared(page, language)
            else:
                parts = await fragments.parts(page, language, sequence)
            changed = [html for target, html in parts.items() if sent.get(target) != html]
            # nothing new is shown to somebody whose rights have changed meanwhile
            if changed and not await self._may_still_see(page):
                await self._end(SESSION_ENDED)
                return False
        except Http404:
            await self._end(NO_SUCH_PAGE)
            return False
        except Exception:
            # the page stays as it is and says that it is stale; the next announcement tries again
            logger.exception("the live page %s could not be rendered", page.name)
            return False
        if changed and not self._is_ended:
            await self.send(text_data="".join(changed))
            sent.update(parts)
        return True

    async def _may_still_see(self, page: LivePage) -> bool:
        """Whether the user still sees what the page was opened with. Raises DatabaseError."""
        watch = self._watch
        if watch is None:
            return False
        mark = await standings.mark_of(watch)
        if mark == watch.mark:
            return True
        if mark is None or await seen(watch.key) != page.visible:
            return False
        watch.mark = mark
        return True

    def _judge(self) -> None:
        """Close the page if the user's rights have changed with what they come from."""
        if self._serving is not None and (self._judging is None or self._judging.done()):
            self._judging = asyncio.create_task(self._close_if_lost())

    async def _close_if_lost(self) -> None:
        try:
            may_see = await self._may_still_see(self._page)
        except DatabaseError:
            return  # the next look tells again
        if not may_see:
            await self._end(SESSION_ENDED)

    async def _end(self, code: int) -> None:
        """Close the page, at most once."""
        if not self._is_ended:
            self._is_ended = True
            await self.close(code)


def same_origin(scope: dict[str, Any]) -> bool:
    """Whether the page that opens the socket comes from the host that it asks; a browser always says."""
    headers = {name.lower(): text.decode("latin-1") for name, text in scope["headers"]}
    origin, host = headers.get(b"origin"), headers.get(b"host")
    return bool(origin and host and urlsplit(origin).netloc.lower() == host.lower())


def language_of(scope: dict[str, Any]) -> str:
    """Return the language of the page: the cookie that the language form sets, else what the browser asks for."""
    headers = {name.lower(): text.decode("latin-1") for name, text in scope["headers"]}
    wanted = [scope.get("cookies", {}).get(settings.LANGUAGE_COOKIE_NAME, "")]
    wanted += [tag for tag, _ in parse_accept_lang_header(headers.get(b"accept-language", ""))]
    for tag in filter(None, wanted):
        with contextlib.suppress(LookupError):
            return get_supported_language_variant(tag)
    return settings.LANGUAGE_CODE


def _has_template(page: LivePage) -> bool:
    try:
        get_template(page.template)
    except TemplateDoesNotExist:
        return False
    return True
