"""Characters of a text that act and are not seen: they stand as their numbers, so that a text reads as what it is.

Keys, tags, properties and bodies are anybody's. A change of direction (U+202E) turns `gnp.exe` around, and a blank of
no width makes two names look the same. The filters are in every template; `truncatechars` is Django's, of the text as
it is seen: nearly every text of others is cut where it is shown.
"""

from __future__ import annotations

import re

from django import template
from django.template.defaultfilters import stringfilter
from django.utils.text import Truncator

register = template.Library()

#: controls but tab and line ends, marks of direction and of joining, fillers, tags
_ACTING = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)


@register.filter(is_safe=True)
@stringfilter
def visible(text: str) -> str:
    """The text, each character that acts unseen as its number."""
    return _ACTING.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


@register.filter(is_safe=True)
@stringfilter
def truncatechars(text: str, length: int) -> str:
    """So many characters of it at most, as they are seen."""
    if len(text) <= int(length) and text.isascii() and text.isprintable():
        return text
    return str(Truncator(visible(text)).chars(int(length)))


@register.filter(is_safe=True)
@stringfilter
def middle(text: str, length: int) -> str:
    """So many characters of an id at most: it is cut in the middle, as ids of one kind begin alike."""
    shown, room = visible(text), int(length) - 1
    return shown if len(shown) <= room + 1 else f"{shown[: room - room // 2]}…{shown[len(shown) - room // 2 :]}"
