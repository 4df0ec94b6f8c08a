"""Rows of the long lists, written in one go: what is the same in all of them is looked up once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from django import template
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.features.groups.shapes import GroupRow, GroupState
from console.features.timers.shapes import TimerList, TimerRow
from console.features.topics.shapes import TopicKind, Topics
from console.features.transactions.shapes import TransactionList, TransactionRow, TransactionState
from console.templatetags.charts import sparks
from console.templatetags.escapement import age, due, figure, length, mark, moment, rate, size
from console.templatetags.transactions import asked_words, checks_words, cross_mark, state_mark
from console.templatetags.writing import named, numbered, short, text

register = template.Library()

_STATE_MARKS = {GroupState.CURRENT: "ok", GroupState.BEHIND: "wait", GroupState.NO_CONSUMER: "look"}
_DASH = '<span class="q">\u2013</span>'


@register.simple_tag
def topic_rows(data: Topics) -> SafeString:
    """The list of topics."""
    page, now_ms, draw = named("topic"), data.now_ms, sparks(_("Stored"))
    kinds = {kind: text(str(kind.label)) for kind in TopicKind}
    never = text(_("never used"))
    never = f'<span class="q">{never}</span>'
    may = {6: text(_("read, write")), 4: text(_("read")), 2: text(_("write"))}
    nothing = text(_("nothing"))
    rows = (
        f'<tr id="topic-{number}"><td class="w"><a href="{page(row.name)}"><b>{text(row.name)}</b></a></td>'
        f'<td class="q2">{kinds[row.kind]}</td><td class="n">{never if row.never_used else figure(row.messages)}</td>'
        f'<td class="n">{figure(row.stored_total)}</td><td>{draw(row.sends)}</td>'
        f'<td class="n">{rate(row.sends_per_s)}</td><td class="n">{age(row.last_ms, now_ms)}</td>'
        f'<td class="n">{row.read_queues}{_other(row.read_queues, row.write_queues)}</td>'
        f'<td class="n">{row.groups}</td>'
        f'<td class="q2">{may.get(row.permission, nothing)}</td></tr>'
        for number, row in enumerate(data.rows, 1)
    )
    return _written(rows)


def _other(read: int, write: int) -> str:
    return "" if read == write else f' <span class="q">/ {write}</span>'


@register.simple_tag
def group_rows(rows: Iterable[GroupRow]) -> SafeString:
    """The list of consumer groups."""
    page = named("group")
    states = {
        state: f'<span class="st">{mark(_STATE_MARKS.get(state, "idle"))}{text(str(state.label))}</span>'
        for state in GroupState
    }
    return _written(
        f'<tr id="group-{number}"><td class="w"><a href="{page(row.name)}"><b>{text(row.name)}</b></a></td>'
        f'<td>{states[row.state]}</td><td class="n">{figure(row.lag)}</td><td class="n">{rate(row.consumed_per_s)}</td>'
        f'<td class="n">{figure(row.members)}</td><td class="n">{row.topics}</td><td class="n">{figure(row.retry)}</td>'
        f'<td class="n">{_loud(row.dead)}</td></tr>'
        for number, row in enumerate(rows, 1)
    )


def _loud(dead: int | None) -> str:
    return f'<b class="brass">{figure(dead)}</b>' if dead else figure(dead)


@register.simple_tag
def timer_rows(data: TimerList) -> SafeString:
    """Timers that can be chosen."""
    page, now_ms = numbered("timer"), data.now_ms
    return _written(
        f'<tr><td><input type="checkbox" name="position" value="{row.position}"'
        f' aria-label="{short(row.name, 80)}"></td>'
        f'<td class="m">{moment(row.due_ms)}</td><td class="n">{due(row.due_ms, now_ms)}</td>'
        f"<td>{short(row.topic, 40)}</td>"
        f'<td class="w"><a class="link m" href="{page(row.position)}">{short(row.name, 60)}</a></td>'
        f'<td>{_chip(row.tag)}</td><td class="n">{size(row.size_bytes)}</td>'
        f'<td class="n">{age(row.store_ms, now_ms)}</td><td class="q">{_rolled(row)}</td></tr>'
        for row in data.rows
    )


@register.simple_tag
def next_timer_rows(data: TimerList, now_ms: int) -> SafeString:
    """Timers that fire next."""
    page = numbered("timer")
    return _written(
        f'<tr id="timer-{row.position}"><td class="m">{moment(row.due_ms, "time")}</td>'
        f'<td class="n">{due(row.due_ms, now_ms)}</td><td>{short(row.topic, 40)}</td>'
        f'<td class="w"><a class="link m" href="{page(row.position)}">{short(row.name, 60)}</a></td>'
        f'<td class="n">{size(row.size_bytes)}</td><td class="q">{_rolled(row)}</td></tr>'
        for row in data.rows
    )


def _chip(tag: str) -> str:
    return f'<span class="chip">{short(tag, 30)}</span>' if tag else _DASH


def _rolled(row: TimerRow) -> str:
    if not row.rolled:
        return "\u2013"
    return text(ngettext("rolled %(n)sx", "rolled %(n)sx", row.rolled) % {"n": row.rolled})


@register.simple_tag
def half_rows(data: TransactionList, state: str) -> SafeString:
    """Transactions of one state; those that are not decided can be chosen."""
    page, now_ms = numbered("transaction"), data.now_ms
    states = {each: _state(each) for each in TransactionState}
    last = _decided if state == "decided" else _parked if state == "parked" else _open
    return _written(
        f'<tr>{"" if state == "decided" else f"<td>{_choice(row)}</td>"}<td class="w">{_name(row, page)}</td>'
        f'<td>{states[row.state]}</td><td class="n">{age(row.store_ms, now_ms)}</td>'
        f"<td>{short(row.topic, 40)}</td><td>{short(row.group, 40)}</td>{last(row, data)}</tr>"
        for row in data.rows
    )


def _state(state: TransactionState) -> str:
    shape = cross_mark() if state is TransactionState.ROLLED_BACK else mark(state_mark(state))
    return f'<span class="st">{shape}{text(str(state.label))}</span>'


def _choice(row: TransactionRow) -> str:
    if not row.choice:
        return ""
    return f'<input type="checkbox" name="half" value="{text(row.choice)}" aria-label="{short(row.name, 80)}">'


def _name(row: TransactionRow, page: Callable[[int], str]) -> str:
    if row.position is None:
        return f'<span class="m">{short(row.name, 60)}</span>'
    return f'<a class="link m" href="{page(row.position)}">{short(row.name, 60)}</a>'


def _decided(row: TransactionRow, _data: TransactionList) -> str:
    by = short(row.by, 60) if row.by else "\u2013"
    why = f': <span class="q2">{short(row.reason, 80)}</span>' if row.reason else ""
    return (
        f'<td class="m">{moment(row.decided_ms)}</td><td class="by">{by}{why}</td>'
        f'<td class="n">{length(row.took_ms)}</td>'
    )


def _parked(row: TransactionRow, data: TransactionList) -> str:
    return _checked(row, data, age(row.parked_ms, data.now_ms))


def _open(row: TransactionRow, data: TransactionList) -> str:
    return _checked(row, data, due(row.next_check_ms, data.now_ms))


def _checked(row: TransactionRow, data: TransactionList, when: str) -> str:
    alone = ' class="brass"' if row.is_alone else ""
    return (
        f'<td class="n">{checks_words(row, data.max_checks)}</td><td class="n">{when}</td>'
        f"<td{alone}>{short(asked_words(row), 60)}</td>"
    )


def _written(rows: Iterable[str]) -> SafeString:
    return mark_safe("\n".join(rows))  # noqa: S308 - each part is escaped where it is written
