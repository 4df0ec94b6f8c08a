"""A program that makes orders one after the other until it is told to end. Arguments: topic, in which way.

`transactional`: each order and its message share one transaction, which for every fifth of them is rolled back.
`later`: the message is a row that `manage.py outbox` sends. An order whose half no broker takes is not made. Prints
`made NAME` for each that has committed.
"""

from __future__ import annotations

import sys
from contextlib import suppress

import django

#: between the half and the commit: as long as a web request may take
WORK_S = 0.02
ROLLED_BACK_EACH = 5


class Unwanted(Exception):
    """The user's own error."""


def main() -> None:
    """Make orders until SIGTERM."""
    topic, way = sys.argv[1:3]
    django.setup()
    from django.db import connection, transaction

    from broker.client import ClientError, StopSignals
    from broker.outbox import send_later, transactional

    def work(name: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO orders (name) VALUES (%s)", [name])
            cursor.execute("SELECT pg_sleep(%s)", [WORK_S])

    def make(number: int) -> None:
        name = f"{way}-{number}"
        if way == "later":
            with transaction.atomic():
                send_later(topic, name)
                work(name)
        else:
            with transactional() as block:
                block.send(topic, name)
                work(name)
                if number % ROLLED_BACK_EACH == 0:
                    raise Unwanted
        sys.stdout.write(f"made {name}\n")
        sys.stdout.flush()

    number = 0
    with StopSignals() as stop:
        while not stop.is_set:
            number += 1
            with suppress(Unwanted, ClientError):
                make(number)


if __name__ == "__main__":
    main()
