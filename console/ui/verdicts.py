"""The sentence that a page begins with: what is with the thing, and what can be done.

One property of each page's shape computes it, from what the page knows already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from django.urls import reverse
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

#: a mark: done, under way, worth attention, broken, or nothing to say
Tone = Literal["ok", "wait", "look", "broken", "idle"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is so, in one sentence, and what one can do, in another; `label` and `address` lead to where."""

    tone: Tone
    words: SafeString
    advice: SafeString | str = ""
    label: str = ""
    address: str = ""


def said(text: str, **parts: Any) -> SafeString:
    """Return a sentence with its parts, each escaped."""
    return format_html(text, **parts) if parts else conditional_escape(text)


def not_known() -> Verdict:
    """Return the verdict where nobody answers: what the page shows is how it was."""
    return Verdict("look", said(_("Not known now: the broker does not respond.")), _("What is shown is how it was."))


def of_group(tone: Tone, words: SafeString, group: str, advice: SafeString | str = "") -> Verdict:
    """Return a verdict that leads to a group."""
    return Verdict(tone, words, advice, _("Open group"), reverse("group", args=[group]))
