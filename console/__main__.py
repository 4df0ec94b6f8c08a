"""Django's command line for the console: `manage.py` of a checkout, `escapement-console` of an installation."""

from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line

from broker import log_lines


def main() -> None:
    """Run the command that the line names."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.site.settings")
    os.umask(0o077)
    log_lines.begin()
    refuse_a_prefix_as_settings(sys.argv)
    from console.security.door import Door, through

    with through(Door(command=f"manage.py {' '.join(sys.argv[1:2])}".strip())):
        execute_from_command_line(sys.argv)


def refuse_a_prefix_as_settings(arguments: list[str]) -> None:
    """Django takes --settings, the module, from every line: a prefix there would end in a trace of what it is not."""
    if arguments[1:3] == ["token", "create"] and any(each.split("=")[0] == "--settings" for each in arguments):
        sys.exit(
            "token create: --settings is Django's own option. The right to create, change and delete topics and groups"
            " is given by --configure PREFIX; the module of settings by DJANGO_SETTINGS_MODULE."
        )


if __name__ == "__main__":
    main()
