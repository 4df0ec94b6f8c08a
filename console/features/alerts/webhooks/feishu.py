"""Feishu's and Lark's custom bots (飞书): a card; the signature of a bot that asks for one stands in the body.

sign = Base64(HMAC-SHA256(timestamp LF secret, nothing)), timestamp in seconds
"""

from __future__ import annotations

import base64
import hashlib
import hmac

from django.utils.translation import gettext_lazy as _

from console.features.alerts.webhooks.format import Format, Post, Try, as_json, fault_in
from console.features.checkback.request import HttpAnswer

_COLOURS = {"raised": "red", "over": "green", "test": "blue"}


class Feishu(Format):
    """Status 200 means nothing here: `code` (once `StatusCode`) says whether the bot took it."""

    name, title, example = "feishu", _("Feishu / Lark"), "https://open.feishu.cn/open-apis/bot/v2/hook/…"
    secret_title = _("signing secret, where the bot asks for one")

    def post(self, each: Try) -> Post:
        """Return a card of plain text: in a text message a name from outside could mention everybody."""
        told = each.told
        fields = [{"is_short": True, "text": _plain(f"{name}\n{value}")} for name, value in told.facts]
        card = {
            "header": {"title": _plain(told.title), "template": _COLOURS[told.state]},
            "elements": [{"tag": "div", "fields": fields}],
        }
        signed = {}
        if each.secret:
            timestamp = str(int(each.at.timestamp()))
            signed = {"timestamp": timestamp, "sign": _sign(each.secret, timestamp)}
        return Post(each.address, as_json({**signed, "msg_type": "interactive", "card": card}))

    def fault(self, answer: HttpAnswer) -> str:
        """Return `code` with its words, unless it is 0."""
        return fault_in(answer, "code", "StatusCode", said=("msg", "StatusMessage"))


def _plain(text: str) -> dict[str, str]:
    return {"tag": "plain_text", "content": text}


def _sign(secret: str, timestamp: str) -> str:
    # the text to sign is the key, and nothing is signed: so the service has it
    return base64.b64encode(hmac.new(f"{timestamp}\n{secret}".encode(), b"", hashlib.sha256).digest()).decode()
