"""`manage.py run`: run every process of this machine until Ctrl-C. `make run` calls it."""

from __future__ import annotations

import fcntl
import os
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from broker import log_lines
from broker.log_lines import escaped
from console.run.addresses import DATABASE_URL_FILE, OWNER_URL_FILE, REDIS_URL_FILE, is_checkout
from console.run.private_files import first_login, first_login_path, keep_private, narrow
from console.run.processes import exposed, processes, taken_ports
from console.run.supervisor import ROSTER_FILE, Roster, Supervisor

NAME_WIDTH = 14
#: of servers that run embedded or elsewhere: what is asked for, its variable, its file
_ADDRESSES = {
    "database-url": ("DATABASE_URL", DATABASE_URL_FILE),
    "database-owner-url": ("ESCAPEMENT_DATABASE_OWNER_URL", OWNER_URL_FILE),
    "redis-url": ("REDIS_URL", REDIS_URL_FILE),
}
#: what starts it again: in a checkout, and where the wheel was installed
STARTED_BY = "make run" if is_checkout() else "escapement-console run"


class Command(BaseCommand):
    """Start everything in order, keep it running, stop it in the opposite order on Ctrl-C."""

    help = "Run every process of this machine until Ctrl-C."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: Any) -> None:
        """Options: print an address, or show all output."""
        parser.add_argument("--print", choices=list(_ADDRESSES), help="print an address and end")
        parser.add_argument("--verbose", action="store_true", help="show all output of all processes here")
        log_lines.add_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Check settings and ports, then run the supervisor until it ends."""
        if options["print"]:
            self._print_address(options["print"])
            return
        keep_private()
        log_lines.take_options(options)
        settings.VAR.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The descriptor stays open, and the lock held, until this process ends.
        self._lock = os.open(settings.VAR / "run.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as taken:
            raise CommandError(
                f"Another `{STARTED_BY}` already uses {settings.VAR}; ESCAPEMENT_VAR chooses another."
            ) from taken
        specs = processes()
        problems = [*exposed(specs), *taken_ports(specs)]
        if problems:
            raise CommandError("\n".join(problems))
        self._login_before = first_login()
        logs = settings.VAR / "log"
        logs.mkdir(exist_ok=True)
        narrow(settings.VAR)
        self._say("run", f"data in {settings.VAR}, logs in {logs}")
        roster = Roster(settings.VAR / ROSTER_FILE)
        code = Supervisor(specs, logs, self._say, verbose=options["verbose"], on_change=roster.write).run(self._greet)
        if code:
            raise CommandError("Not everything could be started.", returncode=code)

    def _print_address(self, name: str) -> None:
        variable, file_name = _ADDRESSES[name]
        given, path = os.environ.get(variable), settings.VAR / file_name
        if not given and not path.exists():
            raise CommandError("The embedded servers have not run here yet: start them with `make run`.")
        self.stdout.write(given or path.read_text().strip())

    def _say(self, name: str, text: str) -> None:
        """Print one line, or one with the last lines of a process under it."""
        self.stdout.write(f"{name:>{NAME_WIDTH}} | " + "\n".join(escaped(line) for line in text.split("\n")))
        self.stdout.flush()

    def _greet(self) -> None:
        host = f"[{settings.WEB_HOST}]" if ":" in settings.WEB_HOST else settings.WEB_HOST
        self._say("run", "")
        self._say("run", f"console   {'https' if settings.WEB_TLS else 'http'}://{host}:{settings.WEB_PORT}/")
        login = first_login()
        if login is not None and login != self._login_before:
            # said once: what a terminal has shown is kept by its history, and by the journal of who runs this for good
            self._say("run", f"log in    {login[0]} / {login[1]}   (said this once, kept in {first_login_path()})")
        elif login is not None:
            self._say("run", f"log in    as {login[0]}; the first password is in {first_login_path()}")
        else:
            self._say("run", "log in    as before; `manage.py changepassword NAME` gives a user a new password")
        self._say("run", f"clients   name service {settings.ESCAPEMENT_NAMESRV}")
        self._say("run", f"Ctrl-C stops everything; `{STARTED_BY}` resumes.")
        self._say("run", "")
