"""Chinese in the words of the trade: one word for one thing, RocketMQ's own where it has one."""

from __future__ import annotations

import re

import pytest
from django.utils import translation
from django.utils.translation import gettext

from console.templatetags.dashboards import window_words
from tests.console.ui.test_languages import SOURCE, entries

#: words that were there beside, or instead of, those of RocketMQ's documents
ONCE = ("代理", "延迟道", "通道", "一生", "收回", "移动消费组")


def test_one_thing_has_one_word() -> None:
    """A broker was "broker", "Broker" and an agent on one page; a lane had three names."""
    for source, target in entries(SOURCE.read_text(encoding="utf-8")).items():
        if source:
            assert [word for word in ONCE if word in target] == [], source
            named = re.sub(r"%\(\w+\)s|broker[-.]\w+|\{\w*\}", "", target)
            assert not re.search(r"(?<![A-Za-z=_.])broker(?![A-Za-z=_])", named), source


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ("Key", "消息 Key"), ("Written", "写入"), ("Lifecycle", "生命周期"), ("Action", "动作"),
        ("Actor", "操作人"), ("Time", "时间"),
        ("Lanes", "延迟级别"), ("Keyboard", "快捷键"), ("Keys", "消息 Key"), ("Reset offsets", "重置消费位点"),
    ],
)  # fmt: skip
def test_heads_of_columns_are_nouns(said: str, word: str) -> None:
    with translation.override("zh-hans"):
        assert gettext(said) == word


@pytest.mark.parametrize(
    ("window", "english", "chinese"),
    [("all", "everything", "全部"), ("24h", "24 hours", "24 小时"), ("7d", "7 days", "7 天"), ("live", "live", "实时"),
     ("1d", "1 day", "1 天"), ("<b>", "<b>", "<b>")],
)  # fmt: skip
def test_a_window_is_said_in_words(window: str, english: str, chinese: str) -> None:
    with translation.override("en"):
        assert window_words(window) == english
    with translation.override("zh-hans"):
        assert window_words(window) == chinese
