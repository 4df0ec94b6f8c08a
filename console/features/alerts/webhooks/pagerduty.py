"""PagerDuty's Events API v2: an alert triggers an incident and resolves it under the same `dedup_key`."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from console.features.alerts.told import Told
from console.features.alerts.webhooks.format import Format, Post, Try, as_json, is_success, read_object, refused
from console.features.checkback.request import HttpAnswer

#: characters of a summary, and of a `dedup_key`
_SUMMARY, _KEY = 1_024, 255


class PagerDuty(Format):
    """The routing key says whose incident it is; it stands in the body, the address is everybody's."""

    name, title, example = "pagerduty", "PagerDuty", "https://events.pagerduty.com/v2/enqueue"
    secret_title, needs_secret, is_address_secret = _("routing key of the integration"), True, False

    def post(self, each: Try) -> Post:
        """Return an event; a test triggers one of severity info."""
        told = each.told
        event: dict[str, Any] = {
            "routing_key": each.secret,
            "event_action": "resolve" if told.is_over else "trigger",
            "dedup_key": told.key[-_KEY:],
        }
        if not told.is_over:
            event |= {"client": "Escapement", "payload": _payload(told)}
        return Post(each.address, as_json(event))

    def fault(self, answer: HttpAnswer) -> str:
        """Return what PagerDuty says instead of "success"."""
        taken = is_success(answer) and read_object(answer.body).get("status") == "success"
        return "" if taken else refused(answer)


def _payload(told: Told) -> dict[str, Any]:
    return {
        "summary": told.title[:_SUMMARY],
        "source": f"escapement {told.environment}".strip(),
        "severity": "info" if told.is_test else "error",
        "timestamp": told.since,
        "component": told.subject,
        "class": told.what,
        "custom_details": dict(told.facts),
    }
