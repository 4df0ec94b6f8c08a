"""Every sentence is there in both languages, and the compiled file is the one of the source."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "console" / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"


def entries(text: str) -> dict[str, str]:
    found = {}
    for block in text.split("\n\n"):
        if block.startswith("#~"):
            continue
        parts = dict.fromkeys(("msgid", "msgstr"), "")
        key = ""
        for line in block.splitlines():
            if match := re.match(r'(msgid|msgid_plural|msgstr)(?:\[0\])? "(.*)"$', line):
                key = match[1]
                parts[key] = parts.get(key, "") + match[2]
            elif line.startswith('"'):
                parts[key] += line[1:-1]
        found[parts["msgid"]] = parts["msgstr"]
    return found


def test_nothing_is_untranslated_or_doubtful() -> None:
    text = SOURCE.read_text(encoding="utf-8")
    assert "fuzzy" not in text
    assert [source for source, target in entries(text).items() if source and not target] == []


def test_names_in_a_sentence_stay_in_its_translation() -> None:
    for source, target in entries(SOURCE.read_text(encoding="utf-8")).items():
        assert set(re.findall(r"%\((\w+)\)s", source)) == set(re.findall(r"%\((\w+)\)s", target)), source


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in ("console", "broker", "templates"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.mo"))
    shutil.copy(ROOT / "manage.py", tmp_path)
    return tmp_path


def test_no_sentence_of_the_code_is_missing(copy: Path) -> None:
    import sys

    command = [sys.executable, "manage.py", "makemessages", "-l", "zh_Hans", "--no-location", "--no-obsolete"]
    subprocess.run(command, cwd=copy, check=True, capture_output=True)
    made = copy / "console" / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"
    assert set(entries(made.read_text(encoding="utf-8"))) == set(entries(SOURCE.read_text(encoding="utf-8")))


def test_the_compiled_file_is_up_to_date(tmp_path: Path) -> None:
    made = tmp_path / "django.mo"
    subprocess.run(["msgfmt", "-o", str(made), str(SOURCE)], check=True)
    assert made.read_bytes() == SOURCE.with_suffix(".mo").read_bytes()
