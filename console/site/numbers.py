"""Whole numbers that people and programs write as text: in addresses, forms and headers."""

from __future__ import annotations

#: the largest number that any caller takes; longer texts are never turned into numbers
MOST = 2**63 - 1
_MOST_DIGITS = len(str(MOST))


def whole_number(text: str | None, low: int = 0, high: int = MOST) -> int | None:
    """The number from `low` to `high` (both included) that `text` writes in plain decimal digits.

    None for anything else: no text, a sign, blanks, a fraction, digits of other scripts, or a number out of range.
    """
    if not text or len(text) > _MOST_DIGITS or not (text.isascii() and text.isdigit()):
        return None
    number = int(text)
    return number if low <= number <= high else None
