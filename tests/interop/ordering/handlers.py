"""What `manage.py consume` finds: a row for each order that was handled; some fail once, some always."""

from __future__ import annotations

import os

from django.db import connection

from broker.client import Message
from broker.handlers import consumer

#: a message that always fails is tried so often again before it is a dead letter
TRIES = 1


@consumer(
    os.environ.get("ORDERS_TOPIC", "orders"), os.environ.get("ORDERS_GROUP", "billing"), from_where="first",
    max_reconsume_times=TRIES,
)  # fmt: skip
def bill(message: Message) -> None:
    """Write down what was handled."""
    name = message.body.decode()
    if name.startswith("fails once") and not message.reconsume_times:
        raise RuntimeError("try again")
    if name.startswith("fails always"):
        raise RuntimeError("no")
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO handled (name, times) VALUES (%s, %s)", [name, message.reconsume_times])
