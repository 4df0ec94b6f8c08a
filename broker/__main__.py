"""`python -m escapement_mq broker|namesrv ...`: a broker, or a name service by itself, without Django."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module

#: what can be run, and the module whose `main` does it; loaded when it is asked for, as the client stands without
PROGRAMS = {"broker": ".server.__main__", "namesrv": ".server.namesrv"}
USAGE = """\
usage: python -m escapement_mq broker --store DIRECTORY ...    a broker and its name service
       python -m escapement_mq namesrv --store DIRECTORY ...   a name service by itself
       python -m escapement_mq --version
Each tells its options with --help.
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
        run: Callable[[list[str]], int] = import_module(PROGRAMS[given[0]], __package__).main
    except ModuleNotFoundError as error:
        sys.stderr.write(f"{error.name} is not installed: pip install 'escapement-mq[broker]'\n")
        return 2
    return run(given[1:])


if __name__ == "__main__":
    sys.exit(main())
