"""Templates lose the white space that they are written with, and nothing that shows."""

from __future__ import annotations

import pytest

from console.site.compression import thin


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("<p>\n    one\n    two\n</p>", "<p>\none\ntwo</p>"),
        ("<b>one</b>\n    <b>two</b>", "<b>one</b>\n<b>two</b>"),
        ("a\n    {% if b %}\n        b\n    {% endif %}\n    c", "a\n{% if b %}b\n{% endif %}c"),
        ("a{% if b %}, b{% endif %}\nc", "a{% if b %}, b{% endif %}\nc"),
        ("<a\n    {% if b %}data-b{% endif %}\n    c\n>", "<a\n{% if b %}data-b{% endif %}\nc>"),
        ("<tr>\n    <td>1</td>\n    <td>2</td>\n</tr>", "<tr><td>1</td><td>2</td></tr>"),
    ],
)
def test_a_template_is_sent_without_its_indentation(written: str, sent: str) -> None:
    assert thin(written) == sent
