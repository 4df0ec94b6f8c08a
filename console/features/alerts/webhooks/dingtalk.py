"""DingTalk's custom robots (钉钉): a text; the signature of a robot that asks for one stands in the address.

sign = Base64(HMAC-SHA256(secret, timestamp LF secret)), timestamp in milliseconds
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from urllib.parse import urlencode

from django.utils.translation import gettext_lazy as _

from console.features.alerts.webhooks.format import Format, Post, Try, as_json, cut, fault_in
from console.features.checkback.request import HttpAnswer

_MOST_BYTES = 15_000


class DingTalk(Format):
    """Status 200 means nothing here: `errcode` says whether the robot took it."""

    name, title = "dingtalk", _("DingTalk")
    example = "https://oapi.dingtalk.com/robot/send?access_token=…"
    secret_title = _("signing secret (SEC…), where the robot asks for one")

    def post(self, each: Try) -> Post:
        """Return a text that mentions nobody, with the signature in the address."""
        body = {"msgtype": "text", "text": {"content": cut(each.told.text, _MOST_BYTES)}, "at": {"isAtAll": False}}
        address = each.address
        if each.secret:
            timestamp = round(each.at.timestamp() * 1_000)
            signed = urlencode({"timestamp": timestamp, "sign": _sign(each.secret, timestamp)})
            address += ("&" if "?" in address else "?") + signed
        return Post(address, as_json(body))

    def fault(self, answer: HttpAnswer) -> str:
        """Return `errcode` with its words, unless it is 0."""
        return fault_in(answer, "errcode", said=("errmsg",))


def _sign(secret: str, timestamp: int) -> str:
    digest = hmac.new(secret.encode(), f"{timestamp}\n{secret}".encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()
