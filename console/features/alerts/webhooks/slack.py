"""Slack's incoming webhooks: blocks, with a text for notifications; the answer is the word "ok"."""

from __future__ import annotations

from html import escape

from console.features.alerts.webhooks.format import Format, Post, Try, as_json, is_success, refused
from console.features.checkback.request import HttpAnswer

#: characters of a header block, and of a field of a section
_HEADER, _FIELD = 150, 2_000


class Slack(Format):
    """All of it is plain text: names from outside are no markup and mention nobody."""

    name, title, example = "slack", "Slack", "https://hooks.slack.com/services/…"

    def post(self, each: Try) -> Post:
        """Return a header, and a section with the facts."""
        told = each.told
        fields = [_plain(f"{name}\n{value}", _FIELD) for name, value in told.facts]
        body = {
            # & < > would be markup, and mention people
            "text": escape(told.title, quote=False),
            "blocks": [{"type": "header", "text": _plain(told.title, _HEADER)}, {"type": "section", "fields": fields}],
        }
        return Post(each.address, as_json(body))

    def fault(self, answer: HttpAnswer) -> str:
        """Return what Slack says instead of "ok", such as "invalid_payload" or "no_service"."""
        return "" if is_success(answer) and answer.body.strip() == b"ok" else refused(answer)


def _plain(text: str, most: int) -> dict[str, object]:
    return {"type": "plain_text", "text": text if len(text) <= most else text[: most - 1] + "…", "emoji": False}
