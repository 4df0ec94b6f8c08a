"""`manage.py mirror once | rebuild | status | forget`: the mirror by hand; the worker follows by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from ....client import Admin
from ....client.errors import ClientError
from ....log_lines import escaped
from ...changes import UnreadableChangesError
from ...clock_file import broker_now_ms
from ...entries import clusters
from ...follower import Mirror, MirrorBusyError, Round
from ...models import ENTRY_MARK, Broker, MirrorState, row_name
from ...writer import clear


class Command(BaseCommand):
    """Read the brokers into the mirror rows once, or drop and rebuild them, or say how far they are; forget one."""

    help = "Mirror rows: read once, drop and rebuild, show the position, or forget a broker that will not come back."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take what is to be done, and with which broker."""
        parser.add_argument("action", choices=("once", "rebuild", "status", "forget"))
        parser.add_argument("name", nargs="?", metavar="BROKER", help="the broker to forget")
        parser.add_argument("--broker", help="only this one; of a further cluster CLUSTER/BROKER (default: all)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it once; a CommandError says what was in the way."""
        action, name, broker = options["action"], options["name"], options["broker"]
        if (action == "forget") != bool(name):
            raise CommandError("Say which broker is to be forgotten: mirror forget BROKER. Others take --broker.")
        if action == "status":
            self._status(broker)
        elif action == "forget":
            self._forget(name)
        else:
            self._read(action, broker)

    def _read(self, action: str, broker: str | None) -> None:
        """Read or rebuild each broker; one that cannot be read keeps no other from it."""
        failures = []
        for name in [broker] if broker else _known():
            try:
                done = _done(action, name)
            except (MirrorBusyError, ClientError, UnreadableChangesError) as error:
                failures.append(f"{name}: {error}")
                continue
            said = f"sequence {done.sequence}: {', '.join(sorted(done.kinds)) or 'nothing new'}"
            self.stdout.write(escaped(f"{name}: {said}"))
        if failures:
            raise CommandError(escaped("; ".join(failures)))

    def _status(self, broker: str | None) -> None:
        states = MirrorState.objects.order_by("broker")
        for state in states.filter(broker=broker) if broker else states:
            behind_ms = None if state.as_of_ms is None else broker_now_ms() - state.as_of_ms
            lag = "never read" if behind_ms is None else f"{behind_ms / 1000:.1f} s behind"
            slave = "" if state.slave_number is None else f", slave {state.slave_number} is read"
            said = f"{state.broker_id}: sequence {state.sequence}, {lag}{slave}{f', {state.error}' * bool(state.error)}"
            self.stdout.write(escaped(said))

    def _forget(self, name: str) -> None:
        if not Broker.objects.filter(name=name).exists():
            raise CommandError(escaped(f"There are no rows of a broker {name}; `mirror status` lists them."))
        with _asking(), _admin(name) as admin:
            listed = {each.name for each in admin.members()}
        if _own_name(name) in listed:
            raise CommandError(escaped(f"The name service lists {name}: stop that broker first, then forget it."))
        with transaction.atomic():
            clear(name)
        self.stdout.write(escaped(f"{name}: forgotten"))


def _known() -> list[str]:
    """Return the row names of all brokers that a name service lists or that have rows; raises CommandError."""
    found = set(Broker.objects.values_list("name", flat=True))
    for entry, namesrv in clusters().items():
        with _asking(), Admin(namesrv) as admin:
            found |= {row_name(entry, each.name) for each in admin.members()}
    if not found:
        raise CommandError("The name service knows no broker: is one running?")
    return sorted(found)


def _done(action: str, name: str) -> Round:
    with _admin(name) as admin:
        mirror = Mirror(admin, _own_name(name), entry=_entry(name))
        try:
            return mirror.rebuild() if action == "rebuild" else mirror.run_once()
        finally:
            mirror.close()


def _entry(name: str) -> str:
    return name.rpartition(ENTRY_MARK)[0]


def _own_name(name: str) -> str:
    return name.rpartition(ENTRY_MARK)[2]


def _admin(name: str) -> Admin:
    """Return the admin of one broker; raises CommandError for one of an unknown cluster."""
    namesrv = clusters().get(_entry(name))
    if namesrv is None:
        raise CommandError(escaped(f"ESCAPEMENT_CLUSTERS has no cluster {_entry(name)!r}, which {name} is of."))
    return Admin(namesrv, broker=_own_name(name))


@contextmanager
def _asking() -> Iterator[None]:
    """Turn what a name service does not answer into a CommandError."""
    try:
        yield
    except ClientError as error:
        raise CommandError(escaped(str(error))) from error
