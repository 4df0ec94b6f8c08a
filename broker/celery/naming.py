"""Celery's names in RocketMQ's words: a queue is a topic, an exchange that tells everybody is one, replies share one.

| Celery                         | topic                | tag                     |
|--------------------------------|----------------------|-------------------------|
| queue `celery`                 | `celery`             | name of the task        |
| its messages of priority 7     | `celery\\|p7`         | name of the task        |
| fan-out exchange `celeryev`    | `celeryev\\|fanout`   | routing key             |
| a queue of one process alone   | `celery\\|replies`    | name of the queue       |

What a topic's name may not hold is written as in an address (`%40` for `@`), so `|` stands in no queue's own name.
"""

from __future__ import annotations

import re
from hashlib import sha256
from urllib.parse import quote

from ..client.names import MAX_TOPIC_CHARACTERS
from ..rocketmq.topics import retry_topic

HIGHEST_PRIORITY = 9
#: Room for what is added to a name: that of a further try in front (its group beside it), the priority behind.
_OWN_CHARACTERS = len(retry_topic("", "|fanout"))
_DIGEST_CHARACTERS = 16
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NO_TAG = re.compile(r"[\s|\x01\x02]")


class Names:
    """The names of topics, for one prefix and consumer group."""

    def __init__(self, prefix: str, group: str) -> None:
        self._prefix = prefix
        self._longest = MAX_TOPIC_CHARACTERS - len(group) - _OWN_CHARACTERS
        #: where everything for queues of one process alone is sent
        self.replies = f"{self._topic('celery')}|replies"

    def queue(self, name: str, priority: int = 0) -> str:
        """Return the topic of a queue's messages with this priority."""
        topic = self._topic(name)
        return f"{topic}|p{priority}" if priority else topic

    def fanout(self, exchange: str) -> str:
        """Return the topic of what is told to everybody."""
        return f"{self._topic(exchange)}|fanout"

    def _topic(self, name: str) -> str:
        written = quote(self._prefix + name, safe="").replace(".", "%2E").replace("~", "%7E")
        if len(written) <= self._longest:
            return written
        digest = sha256(name.encode()).hexdigest()[:_DIGEST_CHARACTERS]
        return f"{written[: self._longest - _DIGEST_CHARACTERS - 1]}-{digest}"


def tag_of(text: str) -> str | None:
    """Return the text as a tag, None where there is none."""
    return _NO_TAG.sub("_", text) or None


def reply_tag(queue: str) -> str:
    """Return the tag under which a queue of one process alone gets its messages."""
    return _NO_TAG.sub("_", queue)


def routed_tag(exchange: str, routing_key: str) -> str:
    """Return the tag of what goes through an exchange to queues that the sender does not know."""
    return _NO_TAG.sub("_", f"{exchange}/{routing_key}")


def is_reply_address(queue: str) -> bool:
    """Tell whether a queue that was never declared here is one process's own: Celery names those by a UUID."""
    return _UUID.search(queue) is not None


def key_of(text: object) -> list[str]:
    """Return the text as a message's one key, nothing where it cannot be one."""
    return [text] if isinstance(text, str) and text and not re.search(r"[\s\x01\x02]", text) else []
