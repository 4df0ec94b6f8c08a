"""A program that makes one order. Arguments: topic, name, seconds that its transaction takes, how it ends:

`commit`; `dies-open`: killed inside its transaction; `dies-committed`: killed when the database has committed and the
broker was not told. A fifth argument names the broker that the half goes to. Prints `began` when that has it, and
`committed`.
"""

from __future__ import annotations

import os
import signal
import sys

import django


def main() -> None:
    """Make the order."""
    topic, name, seconds, end = sys.argv[1:5]
    broker = sys.argv[5] if len(sys.argv) > 5 else None
    django.setup()
    from django.db import connection, transaction

    from broker.outbox import transactional

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with transactional() as block, connection.cursor() as cursor:
        if end == "dies-committed":
            transaction.on_commit(die)
        cursor.execute("INSERT INTO orders (name) VALUES (%s)", [name])
        block.send(topic, name, broker=broker)
        sys.stdout.write("began\n")
        sys.stdout.flush()
        cursor.execute("SELECT pg_sleep(%s)", [float(seconds)])
        if end == "dies-open":
            die()
    sys.stdout.write("committed\n")


if __name__ == "__main__":
    main()
