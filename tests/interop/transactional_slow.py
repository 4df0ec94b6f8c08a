"""A program whose transaction takes so many seconds. Arguments: topic, seconds."""

from __future__ import annotations

import sys

import django


def main() -> None:
    """Make one slow order."""
    topic, seconds = sys.argv[1], float(sys.argv[2])
    django.setup()
    from django.db import connection

    from broker.outbox import transactional

    with transactional() as block, connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders (name) VALUES ('slow')")
        block.send(topic, "slow")
        cursor.execute("SELECT pg_sleep(%s)", [seconds])
    sys.stdout.write("committed\n")


if __name__ == "__main__":
    main()
