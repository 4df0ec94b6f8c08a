"""What a browser has to load: every page and all of the console's scripts together stay small."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from console.site.compression import LEAST_BYTES, compressed
from console.ui.frame import SECTIONS
from tests.console.stage import Stage

STATIC = Path(__file__).resolve().parents[3] / "static"
PAGE_BYTES, SCRIPT_BYTES, STYLE_BYTES = 100_000, 60_000, 20_000
PAGES = (
    "/", "/due/", "/schedule/", "/schedule/17/", "/timers/", "/timers/list/", "/transactions/", "/redisson/",
    "/topics/", "/topics/orders/", "/topics/orders/0/", "/topics/orders/descriptor/", "/groups/", "/groups/billing/",
    "/clients/", "/dead-letters/",
    "/messages/", "/alerts/", "/operations/", "/find/", "/broker/", "/account/settings/",
    "/api/docs/", "/api/docs/messages_send_one/", "/api/docs/timers_cancel_many/",
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
        if weight + packed(styles()) + packed(scripts()) > PAGE_BYTES:
            heavy[path] = weight
    assert heavy == {}


def scripts() -> list[Path]:
    """More than any page of the console loads."""
    return [*(STATIC / "js").glob("*.js"), *(STATIC / "vendor").glob("*/*.js")]


def styles() -> list[Path]:
    return list((STATIC / "css").glob("*.css"))


def test_all_scripts_and_styles_together_are_light() -> None:
    assert len(scripts()) > 5
    assert packed(scripts()) <= SCRIPT_BYTES
    assert packed(styles()) <= STYLE_BYTES


def test_what_is_counted_is_what_is_sent(client: Client, transactional_db: None) -> None:
    for path in [*scripts(), *styles()]:
        address = f"/static/{path.relative_to(STATIC)}"
        plain = client.get(address)
        assert plain.getvalue() == path.read_bytes()
        sent = client.get(address, headers={"accept-encoding": "gzip"})
        assert sent["ETag"] == plain["ETag"]
        content = sent.getvalue()
        if path.stat().st_size >= LEAST_BYTES:
            assert sent["Content-Encoding"] == "gzip"
            assert len(content) == int(sent["Content-Length"]) < path.stat().st_size
            assert gzip.decompress(content) == path.read_bytes()
        again = client.get(address, headers={"accept-encoding": "gzip", "if-none-match": plain["ETag"]})
        assert again.status_code == 304
    page = client.get("/login/", headers={"accept-encoding": "gzip"})
    assert page["Content-Encoding"] == "gzip"
    assert b"</html>" in gzip.decompress(page.content)


def test_a_changed_file_is_compressed_anew(tmp_path: Path, settings: Any) -> None:
    settings.VAR = tmp_path / "var"
    script = tmp_path / "one.js"
    script.write_text("a" * LEAST_BYTES)
    first = compressed(str(script))
    assert first == compressed(str(script))
    script.write_text("b" * (LEAST_BYTES + 1))
    second = compressed(str(script))
    assert first is not None
    assert second is not None
    assert gzip.decompress(Path(second).read_bytes()) == script.read_bytes()
    settings.VAR = script
    assert compressed(str(script)) is None


#: what knows left from right; the console's own are start and end
PHYSICAL = re.compile(
    r"(?:^|[;{\s])(?:(?:margin|padding|border)-(?:left|right)(?:-\w+)?|left|right|float)\s*:"
    r"|text-align\s*:\s*(?:left|right)"
)


def test_styles_are_safe_from_right_to_left_and_know_paper_and_forced_colours() -> None:
    together = "\n".join(path.read_text() for path in styles())
    assert PHYSICAL.findall(together) == []
    assert PHYSICAL.findall(".a { margin-left: 1px } .b{left:0} .c { text-align: right }")
    for wanted in ("@media print", "forced-colors: active", "prefers-reduced-motion"):
        assert wanted in together


def test_no_letter_means_two_things() -> None:
    letters = [place.key for section in SECTIONS for place in section.places]
    own = set(re.findall(r'key === "(.)"', (STATIC / "js" / "keys.js").read_text())) | {"v", "*", *"123456789"}
    assert own >= {"/", "?", "j", "k", "t"}
    assert len(set(letters)) == len(letters)
    assert not own & set(letters)
