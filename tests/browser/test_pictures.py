"""Every picture of docs/screens shows its page as the console draws it now."""

from __future__ import annotations

from typing import Any

import redis
from django.test import Client

from tests.browser import shop
from tests.browser.test_transactions import stage  # noqa: F401 - a fixture: a broker that asks about halves soon
from tests.console.stage import Stage
from tests.console.ui import drawn


def test_pictures_show_what_is_drawn(
    stage: Stage,  # noqa: F811 - the fixture from above
    operator: Client,
    valkey: str,
    settings: Any,
) -> None:
    settings.REDISSON_URL, settings.REDISSON_QUEUES = valkey, ["*"]
    client = redis.Redis.from_url(valkey)
    with shop.opened(stage, client) as addresses:
        shop.look(stage)
        others = {
            name
            for name, picture in drawn.manifest()["pictures"].items()
            if drawn.is_another(
                picture["elements"].split(),
                drawn.elements(operator.get(addresses.get(picture["address"], picture["address"])).content.decode()),
            )
        }
    client.close()
    assert others == set(), f"run `{drawn.COMMAND}` and commit docs/screens"
