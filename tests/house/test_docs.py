"""Documents say what is there: links lead somewhere, commands and settings exist."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.house.sources import ROOT, place, tracked

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
README = ROOT / "README.md"
READ_SETTING = re.compile(r"environ[^\n]*?\"(ESCAPEMENT_[A-Z_]+)\"")
SETTING = re.compile(r"\bESCAPEMENT_[A-Z_]+\b")


def readme_targets() -> list[str]:
    return sorted(set(re.findall(r"\bmake (?:-s )?([a-z-]+)", README.read_text())))


def test_every_link_leads_to_a_file() -> None:
    broken = []
    for path in tracked(".md"):
        for target in LINK.findall(path.read_text()):
            file = target.partition("#")[0]
            if file and "://" not in file and not (path.parent / file).exists():
                broken.append(f"{place(path)} -> {target}")
    assert broken == []


def test_every_page_is_in_the_list_by_need_once() -> None:
    listed = LINK.findall((ROOT / "docs" / "README.md").read_text())
    pages = [place(path) for path in tracked(".md") if path.parent == ROOT / "docs" and path.name != "README.md"]
    assert sorted(f"docs/{name}" for name in listed if name.endswith(".md") and "/" not in name) == sorted(pages)


@pytest.mark.parametrize("target", readme_targets())
def test_every_make_target_of_the_readme_is_one(target: str) -> None:
    plan = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert plan.returncode == 0, plan.stderr


def test_every_management_command_of_the_documents_exists() -> None:
    from django.core.management import get_commands

    known = get_commands()
    named = {name for path in tracked(".md") for name in re.findall(r"manage\.py ([a-z_]+)", path.read_text())}
    assert named - set(known) == set()


def test_every_option_of_a_token_that_the_documents_name_exists(capsys: pytest.CaptureFixture[str]) -> None:
    from console.management.commands.token import Command

    with pytest.raises(SystemExit):
        Command().create_parser("manage.py", "token").parse_args(["create", "--help"])
    known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    named = set(re.findall(r"`(--[a-z-]+)", (ROOT / "docs" / "REST.md").read_text()))
    assert named - known == set()
    assert {"--publish", "--configure"} <= named


def documented() -> set[str]:
    return {name for path in tracked(".md") for name in SETTING.findall(path.read_text())}


def test_every_setting_is_documented() -> None:
    used = {
        name for path in tracked(".py") if "tests" not in path.parts for name in READ_SETTING.findall(path.read_text())
    }
    assert used - documented() == set()


def test_every_documented_setting_is_used() -> None:
    used = {name for path in tracked(".py", "") for name in SETTING.findall(path.read_text(errors="replace"))}
    assert documented() - used == set()


def test_every_requirement_is_pinned_with_a_hash() -> None:
    loose = []
    for path in (ROOT / "requirements").glob("*.txt"):
        for block in re.split(r"\n(?=[a-z])", path.read_text().split("\n", 2)[2]):
            if not re.match(r"\S+==\S+", block) or "--hash=sha256:" not in block:
                loose.append(f"{path.name}: {block.splitlines()[0]}")
    assert loose == []
