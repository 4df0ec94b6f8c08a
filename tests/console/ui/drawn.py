"""What the pictures in docs/screens show, kept beside them: the elements of each page as it was drawn, and the styles.

A picture is out of date when more than a tenth of what its page draws is another than when it was taken. How a
template is written does not count, nor do words, figures and what a chart draws for them: they differ each time.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
SCREENS = ROOT / "docs" / "screens"
MANIFEST = SCREENS / "manifest.json"
COMMAND = "make screens"
#: the share of what is drawn that may be another
TOLERATED = 0.1

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_RULE = re.compile(r"([^{}]*)\{([^{}]*)\}")
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
#: what is not drawn, and what is drawn from figures
_LEFT_OUT = {"head", "script", "style", "template", "svg"}


class _Elements(HTMLParser):
    """Each element of a page with its classes, below its parent with its classes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self._open: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = ".".join([tag, *sorted((dict(attrs).get("class") or "").split())])
        if not any(parent in _LEFT_OUT for parent, _ in self._open):
            self.found.add(f"{self._open[-1][1] if self._open else ''}>{named}")
        if tag not in _VOID:
            self._open.append((tag, named))

    def handle_endtag(self, tag: str) -> None:
        if tag in {each for each, _ in self._open}:
            while self._open.pop()[0] != tag:
                pass


def elements(html: str) -> list[str]:
    """What a page draws: each kind of element in each kind of parent once, shortened and sorted."""
    parser = _Elements()
    parser.feed(html)
    return _shortened(parser.found)


def styles(texts: Iterable[str]) -> list[str]:
    """What style sheets say: each declaration of each selector once, shortened and sorted."""
    found = {
        " ".join(f"{selector}{{{declaration}".split())
        for text in texts
        for selector, declarations in _RULE.findall(_COMMENT.sub("", text))
        for declaration in declarations.split(";")
        if declaration.strip()
    }
    return _shortened(found)


def _shortened(found: Iterable[str]) -> list[str]:
    return sorted({hashlib.sha256(each.encode()).hexdigest()[:6] for each in found})


def is_another(kept: list[str], now: list[str]) -> bool:
    """Whether more is different than is tolerated."""
    return len(set(kept) ^ set(now)) > TOLERATED * max(len(kept), 1)


def styles_now() -> list[str]:
    """What the console's own style sheets say."""
    return styles(path.read_text(encoding="utf-8") for path in sorted((ROOT / "static" / "css").glob("*.css")))


def manifest() -> dict[str, Any]:
    """`styles`: what they said; `pictures`: by file name its address in the shop, the place in the rail, the elements
    of its page and its SHA-256.
    """
    found: dict[str, Any] = json.loads(MANIFEST.read_text(encoding="utf-8"))
    return found


def write_manifest(pictures: dict[str, dict[str, Any]]) -> None:
    """Keep what these pictures show."""
    kept = {"styles": " ".join(styles_now()), "pictures": pictures}
    MANIFEST.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def digest(path: Path) -> str:
    """The SHA-256 of a picture's file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
