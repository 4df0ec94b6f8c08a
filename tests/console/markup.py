"""Markup as tests compare it."""

from __future__ import annotations

import re


def tight(html: str) -> str:
    """Markup without the white space that templates are written with: one blank inside, none around a tag."""
    return re.sub(r" ?(/?>) ?", r"\1", re.sub(r"\s+", " ", html)).replace(" <", "<")
