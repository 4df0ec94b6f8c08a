"""What tests of Redisson's delayed queues share: lengths of time, and how a page is read."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from django.test import Client

from broker.redisson import DelayedQueue
from broker.redisson.survey import page
from console.operations import workflow
from console.operations.actor import Actor
from console.operations.models import Operation

MINUTE, HOUR = 60_000, 3_600_000
LIMIT_BYTES = 100_000


def words(html: str) -> str:
    """What a person reads."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html)))


def tags_of(html: str) -> set[str]:
    """The elements of a page."""
    return set(re.findall(r"<([a-zA-Z][\w-]*)", html))


def done(kind: str, parameters: dict[str, Any], actor: Actor) -> Operation:
    """Previewed, confirmed and run."""
    return workflow.start(kind, parameters, actor, reason="tidy up")


def handles(queue: DelayedQueue, *, aside: bool = False) -> list[str]:
    return [str(each.handle) for each in page(queue, aside=aside).items]


def body_of(browser: Client, path: str) -> str:
    answer = browser.get(path)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()
