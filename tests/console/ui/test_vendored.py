"""Vendored browser files are the ones that were taken, byte for byte."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

VENDOR = Path(__file__).resolve().parents[3] / "static" / "vendor"


def test_every_vendored_file_has_the_hash_it_was_taken_with() -> None:
    listed = json.loads((VENDOR / "vendor.json").read_text())["files"]
    found = {
        str(path.relative_to(VENDOR)): "sha384-" + base64.b64encode(hashlib.sha384(path.read_bytes()).digest()).decode()
        for path in VENDOR.glob("*@*/*")
    }
    assert found == listed


def test_every_package_is_pinned_and_licensed() -> None:
    packages = {name: entry for name, entry in json.loads((VENDOR / "vendor.json").read_text()).items() if "@" in name}
    assert packages
    for name, entry in packages.items():
        assert name.endswith("@" + entry["version"])
        assert (VENDOR / name / "LICENSE").is_file()
