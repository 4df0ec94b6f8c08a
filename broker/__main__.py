"""`python -m escapement_mq broker|namesrv|backup|restore|rehearse|doctor ...`: a broker, a name service alone,
backups of a store, and a look at its machine, without Django."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module

#: what can be run, and module and function that do it; loaded when it is asked for, as the client stands without
PROGRAMS = {
    "broker": (".server.__main__", "main"),
    "namesrv": (".server.namesrv", "main"),
    "backup": (".backup.command", "backup"),
    "restore": (".backup.command", "restore"),
    "rehearse": (".backup.command", "rehearsal"),
    "doctor": (".doctor.command", "main"),
}
USAGE = """\
usage: python -m escapement_mq broker --store DIRECTORY ...    a broker and its name service
       python -m escapement_mq namesrv --store DIRECTORY ...   a name service alone
       python -m escapement_mq backup DIRECTORY --to BACKUP|-  a backup of a store, its broker may run
       python -m escapement_mq restore BACKUP|- DIRECTORY      a store from a backup; --until: as it was at a time
       python -m escapement_mq rehearse BACKUP|-               check a backup by restoring it to a temporary directory
       python -m escapement_mq doctor DIRECTORY                check the machine, the store and the broker
       python -m escapement_mq --version
Each lists its options with --help.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run what the first argument names; return its exit code, 2 for what is not there or not installed."""
    given = sys.argv[1:] if arguments is None else arguments
    if given == ["--version"]:
        sys.stdout.write(f"escapement-mq {import_module(__package__ or '').__version__}\n")
        return 0
    if not given or given[0] not in PROGRAMS:
        asked = given in (["-h"], ["--help"])
        (sys.stdout if asked else sys.stderr).write(USAGE)
        return 0 if asked else 2
    try:
        module, function = PROGRAMS[given[0]]
        run: Callable[[list[str]], int] = getattr(import_module(module, __package__), function)
    except ModuleNotFoundError as error:
        sys.stderr.write(f"{error.name} is not installed: pip install 'escapement-mq[broker]'\n")
        return 2
    return run(given[1:])


if __name__ == "__main__":
    sys.exit(main())
