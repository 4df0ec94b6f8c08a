"""Chinese in the words of the trade: one word for one thing, RocketMQ's own where it has one."""

from __future__ import annotations

import re

import pytest
from django.utils import translation
from django.utils.translation import gettext

from console.features.timers.shapes import TimerFilter
from console.operations.setting_fields import MESSAGE_TYPES, RETRY_POLICIES
from console.templatetags.dashboards import window_words
from console.templatetags.transactions import decided_by
from console.templatetags.words import setting_words, told_word
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
        ("Delay levels", "延迟级别"), ("Keyboard", "快捷键"), ("Keys", "消息 Key"), ("Reset offsets", "重置消费位点"),
    ],
)  # fmt: skip
def test_heads_of_columns_are_nouns(said: str, word: str) -> None:
    with translation.override("zh-hans"):
        assert gettext(said) == word


def test_what_rocketmq_calls_it_is_said_in_words() -> None:
    """Its names for a mode, a policy, a type and a role stood on Chinese pages, and the words of a filter."""
    with translation.override("zh-hans"):
        shown = [told_word(code) for code in ("CLUSTERING", "BROADCASTING", "CONSUME_PASSIVELY", "CONSUME_ACTIVELY")]
        shown += [setting_words("retry_policy", code) for code in RETRY_POLICIES]
        shown += [setting_words("message_type", code) for code in MESSAGE_TYPES]
        shown += [decided_by("producer 10.0.0.7:50112"), decided_by("check 10.0.0.7:50112")]
        shown += [TimerFilter(topic="orders").words, TimerFilter(key="o-1").words]
        assert [words for words in shown if not re.search("[\u4e00-\u9fff]", words)] == []
        assert (told_word("<b>"), decided_by("ann"), decided_by("producer")) == ("<b>", "ann", "producer")


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
