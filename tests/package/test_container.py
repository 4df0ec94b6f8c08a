"""The container of docs/DEPLOY.md, as far as it can be told without building it."""

from __future__ import annotations

import re
import shlex
import tomllib

from tests.house.sources import ROOT

PAGE = (ROOT / "docs" / "DEPLOY.md").read_text()
PART = PAGE[PAGE.index("## In a container") : PAGE.index("## Another version")]
FILE = ROOT / "docs" / "deploy" / "Containerfile"
LINES = [line for line in FILE.read_text().replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
RUNS = [shlex.split(line) for line in re.findall(r"^podman run .*$", PART, re.MULTILINE)]
#: what everything is run with: nothing is written but where it is said, and nothing more may be done
KEPT_SMALL = "--network host --read-only --tmpfs /tmp --cap-drop all --security-opt no-new-privileges"


def of(instruction: str) -> list[str]:
    return [line.removeprefix(instruction).strip() for line in LINES if line.startswith(f"{instruction} ")]


def test_the_image_runs_what_the_wheel_has_and_not_as_root() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert of("ENTRYPOINT") == [f'["{next(iter(scripts))}"]']
    names = [line.split()[0] for line in LINES]
    assert of("USER") == ["10001"]
    assert "RUN" not in names[names.index("USER") :]
    assert LINES[:2] == ["ARG BASE=docker.io/library/python:3.13-slim-bookworm", "FROM ${BASE}"]


def test_the_page_builds_this_file_from_the_wheel_alone() -> None:
    (build,) = re.findall(r"^buildah build .*$", PART, re.MULTILINE)
    assert build.split()[-1] == "dist" and str(FILE.relative_to(ROOT)) in build
    # the form of images that has a health check
    assert "--format docker" in build and of("HEALTHCHECK")
    assert of("COPY") == ["escapement_mq-*.whl /tmp/wheel/"]


def test_every_process_is_run_once_with_the_least_rights() -> None:
    after = [
        words[words.index("escapement") + 1 :] if words[-1] != "escapement" else ["serve", "web"] for words in RUNS
    ]
    assert [words[:2] for words in after] == [
        ["prepare", "--wait-s"],
        ["serve", "broker"],
        ["serve", "worker"],
        ["serve", "web"],
    ]
    for words in RUNS:
        assert KEPT_SMALL in " ".join(words)
        assert ("/etc/escapement/owner" in words) is ("prepare" in words), "the owner's address is for prepare alone"
        assert "escapement:/var/lib/escapement" in words


def test_the_brokers_health_check_is_a_command() -> None:
    (broker,) = (words for words in RUNS if words[-1] == "broker")
    python, option, program = shlex.split(broker[broker.index("--health-cmd") + 1])
    assert (python, option) == ("python3", "-c")
    compile(program, "health", "exec")
    assert "http://127.0.0.1:10911/readyz" in program
