"""`manage.py mirror once | rebuild | status`: the mirror by hand; the worker follows by itself."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ....client import Admin
from ....client.errors import ClientError
from ....log_lines import escaped
from ...changes import UnreadableChangesError
from ...clock_file import broker_now_ms
from ...follower import Mirror, MirrorBusyError
from ...models import MirrorState


class Command(BaseCommand):
    """Read the broker into the mirror rows once, or drop and rebuild them, or say how far they are."""

    help = "Mirror rows: read once, drop and rebuild, or show the position."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take one argument, what is to be done."""
        parser.add_argument("action", choices=("once", "rebuild", "status"))

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it once; a CommandError says what was in the way."""
        if options["action"] == "status":
            self._status()
            return
        with Admin(settings.ESCAPEMENT_NAMESRV) as admin:
            mirror = Mirror(admin)
            try:
                done = mirror.rebuild() if options["action"] == "rebuild" else mirror.run_once()
            except (MirrorBusyError, ClientError, UnreadableChangesError) as error:
                raise CommandError(escaped(str(error))) from error
            finally:
                mirror.close()
        self.stdout.write(escaped(f"sequence {done.sequence}: {', '.join(sorted(done.kinds)) or 'nothing new'}"))

    def _status(self) -> None:
        for state in MirrorState.objects.all():
            behind_ms = None if state.as_of_ms is None else broker_now_ms() - state.as_of_ms
            lag = "never read" if behind_ms is None else f"{behind_ms / 1000:.1f} s behind"
            said = f"{state.broker_id}: sequence {state.sequence}, {lag}{f', {state.error}' * bool(state.error)}"
            self.stdout.write(escaped(said))
