"""Compression of what is sent: static files as gzip, templates without the white space that they are written with.

Static files stay where they are written, no collect step stands between an edit and a page. The compressed form is kept
in the data directory under a name made of path, size and time of change, so that it never belongs to an older file.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
from pathlib import Path
from typing import Any

from django.conf import settings
from django.template import Origin
from django.template.loaders import filesystem
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

#: what shrinks; fonts and images are compressed already
KINDS = frozenset({".css", ".js", ".svg", ".json", ".txt"})
#: smaller ones travel in one packet as they are
LEAST_BYTES = 512


class CompressedFiles(WhiteNoiseMiddleware):
    """WhiteNoise, with a gzip form of each text beside the plain one."""

    def get_static_file(self, path: str, url: str, stat_cache: Any = None) -> StaticFile:
        """Return the file as it is served. Raises what WhiteNoise raises if there is none."""
        plain = super().get_static_file(path, url, stat_cache=stat_cache)
        packed = compressed(path)
        if packed is None:
            return plain
        known = {path: os.stat(path), packed: os.stat(packed)}
        headers = [(name, value) for name, value in plain.alternatives[-1][2] if name != "Content-Length"]
        return StaticFile(path, headers, encodings={"gzip": packed}, stat_cache=known)


def compressed(path: str) -> str | None:
    """Return the path of a file's gzip form, made if it is missing; None if it would not be smaller or cannot be
    kept."""
    found = os.stat(path)
    if Path(path).suffix not in KINDS or found.st_size < LEAST_BYTES:
        return None
    name = hashlib.sha256(f"{path}\0{found.st_size}\0{found.st_mtime_ns}".encode()).hexdigest()[:32]
    packed = Path(settings.VAR) / "static" / f"{name}.gz"
    if not packed.exists():
        draft = packed.with_suffix(f".{os.getpid()}")
        try:
            packed.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(gzip.compress(Path(path).read_bytes(), mtime=0))
            draft.replace(packed)
        except OSError:
            return None
    return str(packed)


_INDENTATION = re.compile(r"\n[ \t]+")
#: white space means nothing before elements that stand on lines of their own, before cells, and before the end of a tag
_BEFORE = re.compile(
    r"\n(?=</?(?:t[dhr]|d[dlt]|h[1-3]|table|thead|tbody|div|section|header|footer|nav|form|fieldset|p|ul|li)\b|/?>)"
)
#: a line that holds nothing but one of these tags leaves one line break, not two
_ALONE = re.compile(r"(?<=\n)({% (?:if|elif|else|endif|for|empty|endfor|with|endwith|load)\b(?:(?!%}).)*%})\n")


class Loader(filesystem.Loader):
    """Loads files of a folder; a page of many rows would else be a quarter larger, in live frames too.

    Text in `pre` and `textarea` comes from variables, and is not touched.
    """

    def get_contents(self, origin: Origin) -> str:
        """Return the template's text; raise TemplateDoesNotExist where there is none."""
        return thin(super().get_contents(origin))


def thin(text: str) -> str:
    """Return the template with no more white space than it needs to show the same."""
    return _ALONE.sub(r"\1", _BEFORE.sub("", _INDENTATION.sub("\n", text)))
