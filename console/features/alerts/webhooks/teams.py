"""Microsoft Teams: a workflow that begins when a webhook is asked, and posts the Adaptive Card that it gets."""

from __future__ import annotations

from console.features.alerts.webhooks.format import Format, Post, Try, as_json, is_success, refused
from console.features.checkback.request import HttpAnswer

_CARD = "application/vnd.microsoft.card.adaptive"
_SCHEMA, _VERSION = "http://adaptivecards.io/schemas/adaptive-card.json", "1.4"
_COLOURS = {"raised": "attention", "over": "good", "test": "accent"}
#: with status 200, by the connectors that came before workflows
_FAILED = b"Webhook message delivery failed"


class Teams(Format):
    """A message with one card as its only attachment. A workflow answers 202 before it has posted anything."""

    name, title, example = "teams", "Microsoft Teams", "https://….logic.azure.com/workflows/…"

    def post(self, each: Try) -> Post:
        """Return a card with a title and the facts; a text run is no Markdown."""
        told = each.told
        run = {"type": "TextRun", "text": told.title, "weight": "bolder", "color": _COLOURS[told.state]}
        facts = [{"title": name, "value": _plain(value)} for name, value in told.facts]
        card = {
            "$schema": _SCHEMA,
            "type": "AdaptiveCard",
            "version": _VERSION,
            "body": [{"type": "RichTextBlock", "inlines": [run]}, {"type": "FactSet", "facts": facts}],
        }
        attachment = {"contentType": _CARD, "contentUrl": None, "content": card}
        return Post(each.address, as_json({"type": "message", "attachments": [attachment]}))

    def fault(self, answer: HttpAnswer) -> str:
        """Return the fault, also where the status hides it."""
        failed = _FAILED in answer.body
        return "" if is_success(answer) and not failed else refused(answer)


def _plain(text: str) -> str:
    """Return a text in which Markdown's links are none."""
    return text.replace("[", "(").replace("]", ")")
