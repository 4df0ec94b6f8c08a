"""Templates as they are sent: without the white space that they are written with."""

from __future__ import annotations

import re

from django.template import Origin
from django.template.loaders import filesystem

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
        """The template's text; raises TemplateDoesNotExist where there is none."""
        return thin(super().get_contents(origin))


def thin(text: str) -> str:
    """The same template with as little white space as shows the same."""
    return _ALONE.sub(r"\1", _BEFORE.sub("", _INDENTATION.sub("\n", text)))
