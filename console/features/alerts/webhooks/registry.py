"""Every format by its name, in the order in which a form offers them."""

from __future__ import annotations

from collections.abc import Mapping

from console.features.alerts.webhooks.dingtalk import DingTalk
from console.features.alerts.webhooks.feishu import Feishu
from console.features.alerts.webhooks.format import Format
from console.features.alerts.webhooks.pagerduty import PagerDuty
from console.features.alerts.webhooks.plain import Plain
from console.features.alerts.webhooks.slack import Slack
from console.features.alerts.webhooks.teams import Teams
from console.features.alerts.webhooks.wecom import WeCom

FORMATS: Mapping[str, Format] = {
    each.name: each for each in (Plain(), Slack(), Teams(), DingTalk(), WeCom(), Feishu(), PagerDuty())
}


def format_of(name: str) -> Format:
    """Return the format that a rule is kept with; the plain one where a later release's is not known here."""
    return FORMATS.get(name, FORMATS[Plain.name])
