"""Every page that changes in place, by every role: who may open its socket, and what is sent to whom."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.layers import channel_layers, get_channel_layer
from django.conf import settings as django_settings
from django.db import connections

from console.operations.actor import Actor
from console.site.asgi import sockets as application
from console.ui import sockets as console_sockets
from console.ui.live import fragments
from console.ui.sockets import NO_SUCH_PAGE
from tests.console.stage import Stage
from tests.security import doors
from tests.security.scene import FOREIGN, OTHER, OWN, People, Team, two_teams

#: what the address of a live page names of a team ("" : nothing that is anybody's)
TABLE = {
    "overview": "", "due": "", "topics": "", "groups": "", "clients": "", "schedule": "", "timers": "",
    "transactions": "", "delayed_queues": "", "lane": "/16", "topic": "/{topic}", "tail": "/{topic}",
    "group": "/{group}", "client": "?id={client}", "delayed_queue": "?name={topic}", "operation": "/{operation}",
}  # fmt: skip
#: of those that name somebody's; lanes are everybody's, and of a client it is said that it is not connected
NAMED = {"topic", "tail", "group", "delayed_queue", "operation"}
#: code of the close in place of the handshake's acceptance: 403 to the browser
REFUSED = "refused"


def address(name: str, team: Team) -> str:
    client = quote(str(team.parts["client?"]["id"]))
    return name + TABLE[name].format(
        topic=team.topic, group=team.group, client=client, operation=team.parts["operation_id"]
    )


def test_every_live_page_is_in_the_table() -> None:
    assert set(TABLE) == set(doors.sockets())


@pytest.fixture
def both(filled: Stage, actor: Actor, valkey: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Team]]:
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)
    # each page here is the last one that is left
    monkeypatch.setattr(console_sockets, "LEAVE_S", 0.05)
    fragments.forget()
    with two_teams(filled, actor) as made:
        yield made


@pytest.fixture
async def layer() -> AsyncIterator[None]:
    """Its connections belong to this test's event loop."""
    channel_layers.backends.clear()
    yield
    made: Any = get_channel_layer()
    await made.close_pools()
    channel_layers.backends.clear()


async def first(people: People, role: str, page: str, origin: str = "http://localhost") -> str | int:
    """The first frame of a page; the code with which it is closed instead; or that it was refused."""
    cookies = people.browser(role).cookies
    name = django_settings.SESSION_COOKIE_NAME
    session = f"{name}={cookies[name].value}" if name in cookies else ""
    headers = [(b"host", b"localhost"), (b"origin", origin.encode()), (b"cookie", session.encode())]
    path, _, query = page.partition("?")
    scope = {
        "type": "websocket", "path": f"/ws/live/{path}", "query_string": query.encode(), "headers": headers,
        "subprotocols": [],
    }  # fmt: skip
    socket = ApplicationCommunicator(application, scope)
    await socket.send_input({"type": "websocket.connect"})
    sent = await socket.receive_output(20)
    if sent["type"] == "websocket.close":
        await socket.send_input({"type": "websocket.disconnect", "code": 1006})
        await socket.wait(20)
        return REFUSED
    sent = await socket.receive_output(20)
    if sent["type"] == "websocket.close":
        await socket.send_input({"type": "websocket.disconnect", "code": sent["code"]})
        await socket.wait(20)
        return int(sent["code"])
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait(20)
    return str(sent["text"])


async def test_every_role_is_sent_what_it_may_see(both: dict[str, Team], layer: None) -> None:
    people, wrong = await sync_to_async(People)(), []
    for name in TABLE:
        page = address(name, both[OWN])
        for role in ("stranger", "none"):
            if await first(people, role, page) != REFUSED:
                wrong.append(f"{role}: {page} is open")
        if await first(people, "viewer", page, origin="http://evil.example") != REFUSED:
            wrong.append(f"{page} is open to pages from elsewhere")
        for role in ("viewer", "limited operator"):
            frame = await first(people, role, page)
            if not isinstance(frame, str) or "hx-partial" not in frame:
                wrong.append(f"{role}: {page}: {frame}")
            elif role != "viewer" and any(word in frame for word in FOREIGN):
                wrong.append(f"{role}: {page} names what is the other team's")
        if name in NAMED:
            foreign = address(name, both[OTHER])
            if await first(people, "limited operator", foreign) != NO_SUCH_PAGE:
                wrong.append(f"limited operator: {foreign} is open")
    unseen = await first(people, "limited operator", address("client", both[OTHER]))
    assert isinstance(unseen, str)
    assert not any(word in unseen for word in FOREIGN)
    for role in ("operator", "administrator", "superuser"):
        frame = await first(people, role, "topics")
        if not isinstance(frame, str) or OTHER not in frame:
            wrong.append(f"{role} is not sent all topics")
    assert not wrong, "\n".join(wrong)
