"""WeCom's group robots (企业微信群机器人): a text, whose key stands in the address."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from console.features.alerts.webhooks.format import Format, Post, Try, as_json, cut, fault_in
from console.features.checkback.request import HttpAnswer

#: of the content, which longer is refused
_MOST_BYTES = 2_048


class WeCom(Format):
    """Status 200 means nothing here: `errcode` says whether the robot took it."""

    name, title = "wecom", _("WeCom")
    example = "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=…"

    def post(self, each: Try) -> Post:
        """Return a text that mentions nobody."""
        body = {"msgtype": "text", "text": {"content": cut(each.told.text, _MOST_BYTES)}}
        return Post(each.address, as_json(body))

    def fault(self, answer: HttpAnswer) -> str:
        """Return `errcode` with its words, unless it is 0."""
        return fault_in(answer, "errcode", said=("errmsg",))
