"""Templates as they are sent: without the white space that they are written with."""

from __future__ import annotations

import re

from django.template import Origin
from django.template.loaders import filesystem

_INDENTATION = re.compile(r"\n[ \t]+")
#: between the cells of a table white space means nothing
_BEFORE_CELL = re.compile(r"\n(?=</?t[dhr]\b)")
#: a line that holds nothing but one of these leaves one line break, not two
_ALONE = re.compile(
    r"(?<=\n)({% (?:if|elif|else|endif|for|empty|endfor|with|endwith|load|translate .* as \w+)\b[^\n]*?%})\n"
)


class Loader(filesystem.Loader):
    """Loads files of a folder; a page of many rows would else be a quarter larger, in live frames too.

    Text in `pre` and `textarea` comes from variables, and is not touched.
    """

    def get_contents(self, origin: Origin) -> str:
        """The template's text; raises TemplateDoesNotExist where there is none."""
        text = _INDENTATION.sub("\n", super().get_contents(origin))
        return _ALONE.sub(r"\1", _BEFORE_CELL.sub("", text))
