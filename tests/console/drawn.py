"""What the pictures in docs/screens were drawn from: templates, styles and charts, by a fingerprint of their structure.

Words do not count, so that a better sentence needs no new pictures; elements, classes, conditions and styles do.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SCREENS = ROOT / "docs" / "screens"
MANIFEST = SCREENS / "manifest.json"
COMMAND = "make screens"

_SENTENCE = re.compile(r"{%\s*(blocktranslate)\b.*?{%\s*endblocktranslate\s*%}|{%\s*(translate)\b[^%]*%}", re.DOTALL)
_COMMENT = re.compile(r"{#.*?#}|/\*.*?\*/", re.DOTALL)
_IN_CODE = re.compile(r'"""(?s:.*?)"""|^\s*#.*$', re.MULTILINE)
_BLANKS = re.compile(r"\s+")


def structure(path: Path) -> str:
    """What of a file is seen in a picture: a template without its sentences, a style without its comments, code
    without its docstrings and comments. By its text, which every Python reads alike.
    """
    text = (_IN_CODE if path.suffix == ".py" else _COMMENT).sub("", path.read_text(encoding="utf-8"))
    if path.suffix == ".html":
        text = _SENTENCE.sub(lambda found: found[1] or found[2], text)
    return _BLANKS.sub(" ", text).strip()


def fingerprint(path: Path) -> str:
    """The structure, shortened."""
    return hashlib.sha256(structure(path).encode()).hexdigest()[:16]


def of_every_page() -> list[str]:
    """Styles and charts, as paths below the project: each picture may show them."""
    found = [*(ROOT / "static" / "css").glob("*.css"), *(ROOT / "console" / "ui" / "charts").glob("*.py")]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def manifest() -> dict[str, Any]:
    """`parts`: fingerprints by path; `pictures`: by file name its address, the templates of its page, its SHA-256."""
    found: dict[str, Any] = json.loads(MANIFEST.read_text(encoding="utf-8"))
    return found


def write_manifest(pictures: dict[str, dict[str, Any]]) -> None:
    """Keep what these pictures were drawn from, as it is now."""
    parts = {*of_every_page(), *(part for each in pictures.values() for part in each["templates"])}
    kept = {"parts": {part: fingerprint(ROOT / part) for part in sorted(parts)}, "pictures": pictures}
    MANIFEST.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def digest(path: Path) -> str:
    """Of a picture."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
