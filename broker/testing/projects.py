"""The Django project that is tested, if it is one: its settings lead to the broker of the test while that runs.

Django is imported by nobody here unless the tests have it already.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

#: The package that holds this one, by the name under which it was imported.
PACKAGE = __name__.rpartition(".testing.")[0]
#: Turns of the worker of the outbox in one step: so many messages, and more, are a circle.
MOST_TURNS = 1_000


def is_django() -> bool:
    """Tell whether a Django project is there, with settings."""
    if "django" not in sys.modules:
        return False
    from django.conf import settings

    return bool(settings.configured)


@contextmanager
def project_at(namesrv: str) -> Iterator[None]:
    """Have the project's clients use this broker inside the block, and those it keeps be closed behind it."""
    with ExitStack() as stack:
        if is_django():
            from django.test import override_settings

            stack.enter_context(override_settings(ESCAPEMENT_NAMESRV=namesrv, ESCAPEMENT_CLIENT={}))
        try:
            yield
        finally:
            kept = sys.modules.get(f"{PACKAGE}.outbox.transaction_block")
            if kept is not None:
                kept.close_all()


def send_outbox(using: str) -> int:
    """Send what `send_later` wrote, as `manage.py outbox` does; returns how many. Raises AssertionError for what the
    broker refuses, OutboxError without ESCAPEMENT_PRODUCER_GROUPS."""
    from ..outbox.after_commit import Worker, waiting
    from ..outbox.configuration import producer_group
    from ..outbox.transaction_block import producer_of

    worker, sent = Worker(producer_of(producer_group(None)), using), 0
    for _ in range(MOST_TURNS):
        turn = worker.turn()
        sent += turn.sent
        if turn.has_failed:
            reasons = "; ".join(f"{each.topic}: {each.reason}" for each in waiting(using) if each.reason)
            raise AssertionError(f"The outbox holds messages that could not be sent: {reasons}")
        if not turn.sent:
            break
    return sent
