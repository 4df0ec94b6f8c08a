"""Each option of each command of ours arrives at it, as `manage.py` reads command lines and as a shell starts it."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import execute_from_command_line, get_commands, load_command_class
from django.core.management.base import BaseCommand

from console.security import tokens as security_tokens

ROOT = Path(__file__).parents[2]
OURS = ("broker", "console")
#: what Django takes of every command line, wherever it stands, before the command sees it
DJANGOS = frozenset(
    option
    for action in BaseCommand().create_parser("manage.py", "any")._actions
    for option in action.option_strings
    if option not in ("-h", "--help")
)


def manage(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments], cwd=ROOT, env=os.environ | environment, text=True,
        capture_output=True, check=False,
    )  # fmt: skip


def parsers(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Each command or part of one, with all options that are its own and what their values may be."""
    line: list[str] = []
    # one of each group of which only one may be given
    others = {id(action) for group in parser._mutually_exclusive_groups for action in group._group_actions[1:]}
    for action in parser._actions:
        if id(action) in others:
            continue
        if isinstance(action, argparse._SubParsersAction):
            for name, part in action.choices.items():
                yield from parsers(part, (*words, name))
        elif action.option_strings and not is_djangos(action, words):
            line += [action.option_strings[-1], *value_of(action)]
    if line:
        yield words, line


def is_djangos(action: argparse.Action, words: tuple[str, ...]) -> bool:
    """Django adds its options to the command itself, not to its parts."""
    is_added = len(words) == 1 and bool(DJANGOS & set(action.option_strings))
    return is_added or isinstance(action, argparse._HelpAction)


def value_of(action: argparse.Action) -> list[str]:
    if action.nargs == 0:
        return []
    return [str(next(iter(action.choices)))] if action.choices else ["1"]


def own_commands() -> list[str]:
    return sorted(name for name, app in get_commands().items() if isinstance(app, str) and app.split(".")[0] in OURS)


def lines() -> list[tuple[tuple[str, ...], list[str]]]:
    found = []
    for name in own_commands():
        command = load_command_class(get_commands()[name], name)
        found += parsers(command.create_parser("manage.py", name), (name,))
    return found


def test_no_part_of_a_command_has_an_option_that_django_takes_for_itself() -> None:
    assert [(words, option) for words, line in lines() for option in line if option in DJANGOS] == []


@pytest.mark.parametrize(("words", "options"), lines(), ids=[" ".join(words) for words, _ in lines()])
def test_all_options_of_a_command_reach_it(
    words: tuple[str, ...], options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """--help behind them ends the command where its own parser has read them all."""
    with pytest.raises(SystemExit) as ended:
        execute_from_command_line(["manage.py", *words, *options, "--help"])
    said = capsys.readouterr()
    assert ended.value.code == 0, said.err
    assert said.out.startswith(f"usage: manage.py {' '.join(words)}")


@pytest.mark.django_db(transaction=True)
def test_a_shell_makes_a_token_that_may_change_settings(database_url: str) -> None:
    made = manage("token", "create", "ops", "--configure", "order*", DATABASE_URL=database_url)
    assert made.returncode == 0, made.stderr
    grant = security_tokens.grant_of(made.stdout.strip())
    assert grant is not None
    assert grant.allows("settings", "order-paid")


def test_the_option_that_django_takes_is_named_with_the_one_to_use() -> None:
    refused = manage("token", "create", "ops", "--settings", "*")
    assert refused.returncode != 0
    assert "--configure" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_right_says_all_that_it_lets_one_do() -> None:
    """Whoever may send may also steer timers and decide halves; its help named sending alone."""
    said = " ".join(manage("token", "create", "--help").stdout.split())
    help_ = said.rpartition("--publish TOPIC")[2].partition("--read TOPIC")[0]
    assert "timers" in help_ and "half messages" in help_
