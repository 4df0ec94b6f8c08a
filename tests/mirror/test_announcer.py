"""What the mirror tells the pages, over a real Valkey, and without one."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from channels.layers import get_channel_layer

from broker.mirror.announcer import GROUP, Announcer


async def joined() -> tuple[Any, str]:
    layer = get_channel_layer()
    channel = await layer.new_channel("test")
    await layer.group_add(GROUP, channel)
    return layer, channel


async def test_an_event_says_sequence_and_kinds(valkey: str) -> None:
    layer, channel = await joined()
    announcer = Announcer(spacing_s=0.01)
    announcer.announce(7, {"levels", "topics"})
    event = await asyncio.wait_for(layer.receive(channel), 5)
    await asyncio.to_thread(announcer.close)
    assert event == {"type": "mirror.changed", "sequence": 7, "kinds": ["levels", "topics"]}


async def test_events_close_together_are_one(valkey: str) -> None:
    layer, channel = await joined()
    announcer = Announcer(spacing_s=0.3)
    announcer.announce(1, {"levels"})
    assert (await asyncio.wait_for(layer.receive(channel), 5))["sequence"] == 1
    for sequence, kind in ((2, "topics"), (3, "queues"), (4, "levels")):
        announcer.announce(sequence, {kind})
    event = await asyncio.wait_for(layer.receive(channel), 5)
    await asyncio.to_thread(announcer.close)
    assert (event["sequence"], event["kinds"]) == (4, ["levels", "queues", "topics"])


async def test_a_number_that_is_not_larger_is_made_so(valkey: str) -> None:
    layer, channel = await joined()
    announcer = Announcer(spacing_s=0.01)
    for told, heard in ((900, 900), (7, 901), (901, 902)):
        announcer.announce(told, {"levels"})
        assert (await asyncio.wait_for(layer.receive(channel), 5))["sequence"] == heard
    await asyncio.to_thread(announcer.close)


def test_a_lost_layer_holds_up_nobody(settings: Any) -> None:
    lost = {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": {"hosts": ["redis://127.0.0.1:1/0"]}}
    settings.CHANNEL_LAYERS = {"default": lost}
    announcer = Announcer(spacing_s=0.01)
    begin = time.monotonic()
    for sequence in range(100):
        announcer.announce(sequence, {"levels"})
    announcer.close()
    announcer.close()
    assert time.monotonic() - begin < 4
