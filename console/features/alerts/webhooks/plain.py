"""A program of one's own: the news as they are kept, signed with a secret that is made here (docs/CONSOLE.md)."""

from __future__ import annotations

import secrets

from django.utils.translation import gettext_lazy as _

from console.features.alerts.webhooks.format import Format, Post, Try, is_success
from console.features.checkback.request import (
    NONCE_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    HttpAnswer,
    sign_alert,
)

DELIVERY_HEADER, TRY_HEADER = "Escapement-Delivery", "Escapement-Try"


class Plain(Format):
    """A signed POST of JSON. The secret is not typed in: it follows from the rule."""

    name, title, example = "plain", _("signed JSON"), "https://hooks.example/alerts"
    is_address_secret = False

    def post(self, each: Try) -> Post:
        """Return the kept text; timestamp, nonce and signature are new with each try."""
        timestamp, nonce = str(int(each.at.timestamp())), secrets.token_hex(16)
        body = each.body.encode()
        headers = {
            TIMESTAMP_HEADER: timestamp,
            NONCE_HEADER: nonce,
            SIGNATURE_HEADER: sign_alert(each.secret, timestamp, nonce, body),
            DELIVERY_HEADER: each.told.delivery,
            TRY_HEADER: str(each.number),
        }
        return Post(each.address, body, headers)

    def fault(self, answer: HttpAnswer) -> str:
        """Return the status alone: what a program says besides is nobody's business here."""
        return "" if is_success(answer) else f"status {answer.status}"
