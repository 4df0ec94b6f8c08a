"""One mirror at a time, in whatever process; whoever dies lets go."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connection, connections

from broker.client import Admin
from broker.mirror.follower import Mirror, MirrorBusyError
from broker.mirror.models import MirrorState
from tests.waiting import until


def elsewhere(work: Callable[[], object]) -> None:
    """Run it with a database session of its own."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    if failures:
        raise failures[0]


def test_a_second_mirror_is_refused(mirror: Mirror, admin: Admin) -> None:
    mirror.run_once()
    with pytest.raises(MirrorBusyError, match="stop its worker"):
        elsewhere(Mirror(admin).run_once)


def test_closing_lets_another_one_in(mirror: Mirror, admin: Admin) -> None:
    mirror.run_once()
    mirror.close()
    elsewhere(Mirror(admin).run_once)
    assert MirrorState.objects.get().sequence == 2


def test_a_lost_session_gives_up_the_lock(mirror: Mirror, admin: Admin) -> None:
    mirror.run_once()
    connection.close()
    # the server notices a moment later that the session has ended
    until(lambda: [elsewhere(Mirror(admin).run_once)], not_yet=(MirrorBusyError,))
    assert MirrorState.objects.get().sequence == 2


def test_a_mirror_whose_session_was_lost_takes_the_lock_again(mirror: Mirror, admin: Admin) -> None:
    mirror.run_once()
    connection.close()
    # its own old session may still be ending
    until(lambda: [mirror.run_once()], not_yet=(MirrorBusyError,))
    with pytest.raises(MirrorBusyError):
        elsewhere(Mirror(admin).run_once)


def test_a_running_mirror_lives_through_a_lost_session(transactional_db: None, admin: Admin) -> None:
    """Its session is ended by the server; it takes lock and position again and goes on."""
    stop = threading.Event()

    def watch() -> None:
        Mirror(admin).run(stop)

    thread = threading.Thread(target=lambda: elsewhere(watch))
    thread.start()
    try:
        until_sequence(1)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        before = MirrorState.objects.get().sequence
        until_sequence(before + 2)
    finally:
        stop.set()
        thread.join(20)


def until_sequence(sequence: int) -> None:
    until(lambda: MirrorState.objects.filter(sequence__gte=sequence).exists())
