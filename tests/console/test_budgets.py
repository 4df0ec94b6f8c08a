"""What a browser has to load: every page and all of the console's scripts together stay small."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from django.test import Client

from tests.console.stage import Stage

STATIC = Path(__file__).resolve().parents[2] / "static"
PAGE_BYTES, SCRIPT_BYTES, STYLE_BYTES = 100_000, 60_000, 20_000
PAGES = (
    "/", "/schedule/", "/schedule/17/", "/timers/", "/timers/list/", "/transactions/", "/redisson/", "/topics/",
    "/topics/orders/", "/topics/orders/0/", "/groups/", "/groups/billing/", "/clients/", "/dead-letters/", "/messages/",
    "/alerts/", "/operations/", "/find/",
)  # fmt: skip


def packed(paths: list[Path]) -> int:
    return sum(len(gzip.compress(path.read_bytes(), 6)) for path in paths)


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_every_page_is_light(stage: Stage, operator: Client, language: str) -> None:
    stage.fill()
    stage.consume()
    heavy = {}
    for path in PAGES:
        answer = operator.get(path, headers={"accept-language": language})
        assert answer.status_code == 200, path
        weight = len(gzip.compress(answer.content, 6))
        if weight + packed(list((STATIC / "css").glob("*.css"))) > PAGE_BYTES:
            heavy[path] = weight
    assert heavy == {}


def test_all_scripts_and_styles_together_are_light() -> None:
    scripts = [*(STATIC / "js").glob("*.js"), *(STATIC / "vendor").glob("*/*.js")]
    assert len(scripts) > 5
    assert packed(scripts) <= SCRIPT_BYTES
    assert packed(list((STATIC / "css").glob("*.css"))) <= STYLE_BYTES
