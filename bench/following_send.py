"""`python -m bench.following_send NAMESRV TOPIC RATE SECONDS BATCH`: sends at a steady rate, tells what became of it.

One JSON object: moments (s since the epoch) and ms of each request, from the moment at which it ought to have left.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from broker.client import Producer

BODY = bytes(range(128))


def main() -> int:
    """Send batches of BATCH messages; 1: single ones."""
    namesrv, topic, rate, seconds, batch = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    answered: list[tuple[float, float]] = []
    pause = threading.Event()
    with Producer("following", namesrv) as producer:
        producer.send(topic, BODY)  # connected, and the topic known
        begin_s = time.time()
        for number in range(rate * seconds // batch):
            due_s = begin_s + number * batch / rate
            if (early_s := due_s - time.time()) > 0:
                pause.wait(early_s)
            if batch == 1:
                producer.send(topic, BODY)
            else:
                producer.send_batch(topic, [BODY] * batch)
            answered.append((time.time(), (time.time() - due_s) * 1_000))
    json.dump({"answered": answered, "batch": batch}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
