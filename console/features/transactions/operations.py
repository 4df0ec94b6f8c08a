"""Commit, roll back, ask about and resume transactions: the named ones, or all that match a filter.

    {"targets": [{"offset": 12, "position": 4711}, ...]}
    {"filter": {"state": "open", "group": "", "topic": "", "before_ms": 1795247527000}, "is_all": False}

A filter that names nothing but a state means everything in it and must be asked for by `is_all`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from django.http import QueryDict
from django.utils.translation import gettext, ngettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from broker.client import Admin, BrokerRefused, NotSupported, RouteNotFound
from broker.client.transactions import Action, SteeredTransaction, TransactionTarget
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.properties import REAL_TOPIC
from broker.rocketmq.topics import HALF_TOPIC
from console.features.transactions import records
from console.features.transactions.pages import PAGE, page_of
from console.features.transactions.records import matches, read_newest, row_of
from console.features.transactions.shapes import TransactionFilter, TransactionRow
from console.operations.actor import STEER_TRANSACTIONS, Scope
from console.operations.catch_up import Behind, behind_after, in_words, lag_of_topics
from console.operations.errors import InvalidParameter
from console.operations.kind import LIMIT, REASON, Call, Command, ItemResult, Kind, Outcome, Target, Words
from console.operations.models import OperationItem
from console.operations.registry import register
from console.operations.selection import (
    EXAMPLES,
    MOST_TARGETS,
    PREVIEW_PATIENCE_S,
    checked_filter,
    chosen_body,
    chosen_scope,
    count_of,
    is_whole,
    there_before,
    time_words,
    topics_of,
)
from console.operations.spanning import (
    OF,
    BrokersPreview,
    act_at_each,
    among,
    checked_brokers,
    counted,
    find_at_each,
    look_at_each,
    previewed,
    shares_of,
    totals,
)
from console.security.masking import masks
from console.security.topic_scope import TopicScope, authorised
from console.site import broker as site_broker
from console.site.broker import address_at, ask_each, at
from console.site.clock import now_ms
from console.site.mirrored import cluster
from console.site.parsing import whole_number

_TEXT_LENGTH = 255
_CONSOLE = "console"
#: names of a filter's fields here and in REST
_FILTER = {"state": "state", "topic": "topic", "group": "producer_group", "before_ms": "stored_before"}
#: outcomes of those that were decided before
_DECIDED: Mapping[str, Outcome] = {
    "already_committed": Outcome(_("already committed"), "idle"),
    "already_rolled_back": Outcome(_("already rolled back"), "idle"),
    "already_decided": Outcome(_("already decided"), "idle"),
}


KEY_REQUESTS = (Request.QUERY_MESSAGE, Request.GET_TRANSACTION)
#: of one key; records that are looked through for them
MOST_OF_KEY, LOOKED_OF_KEY = 64, 256


@dataclass(frozen=True, slots=True)
class Found:
    """The transactions found. `undecided`: open and parked ones of the whole broker; None: not told."""

    now_ms: int
    rows: Sequence[TransactionRow]
    #: all that match were found
    is_whole: bool = True
    #: from the newest records of an Apache RocketMQ broker
    is_polled: bool = False
    #: of named ones: each in its order, None for one that is not there
    named: Sequence[TransactionRow | None] = ()
    undecided: int | None = None


def find_matching(admin: Admin, wanted: TransactionFilter, *, most: int, patience_s: float | None) -> Found:
    """Find the undecided transactions that match, at most `most`; raise ClientError."""
    begun_ms = now_ms()
    end_s = None if patience_s is None else time.monotonic() + patience_s
    rows: list[TransactionRow] = []
    try:
        status = admin.transaction_status()
        for page in pages_of(admin, wanted, now_ms=begun_ms):
            rows += [row for row in page if row.is_undecided and row.position is not None]
            if len(rows) >= most or (end_s is not None and time.monotonic() > end_s):
                return Found(status.now_ms, rows[:most], is_whole=False, undecided=status.open + status.parked)
    except NotSupported:
        newest = read_newest(admin)
        rows = [row for row in newest.rows if matches(row, wanted)]
        is_whole = len(newest.halves) >= newest.halves_total
        return Found(begun_ms, rows[:most], is_whole, is_polled=True)
    return Found(status.now_ms, rows, undecided=status.open + status.parked)


def find_named(admin: Admin, targets: Sequence[Mapping[str, Any]]) -> Found:
    """Find each of the named transactions, as it is now; raise ClientError."""
    begun_ms = now_ms()
    try:
        status = admin.transaction_status()
    except NotSupported:
        known = {row.position: row for row in read_newest(admin).rows}
        named = [known.get(target["position"]) for target in targets]
        return Found(begun_ms, [row for row in named if row is not None], is_polled=True, named=named)
    named = [_one(admin, target["position"]) for target in targets]
    rows = [row for row in named if row is not None]
    return Found(status.now_ms, rows, named=named, undecided=status.open + status.parked)


def _one(admin: Admin, position: int) -> TransactionRow | None:
    try:
        return row_of(admin.transaction(position=position))
    except BrokerRefused as error:
        if error.code == Answer.QUERY_NOT_FOUND:
            return None
        raise


@authorised
def halves_named(scope: TopicScope, key: str) -> tuple[TransactionRow, ...]:
    """Return transactions with this key or message id as they are now, the newest first, of all brokers that answer."""
    asked, _evidence = ask_each(lambda admin: _named(admin, key, scope.topic), cluster(), requests=KEY_REQUESTS)
    found = [replace(row, broker=here.name) for here, rows in asked for row in rows]
    if len(asked) > 1:
        found.sort(key=lambda row: -(row.store_ms or 0))
    return masks().rows(found)


def _named(admin: Admin, key: str, is_seen: Callable[[str], bool]) -> list[TransactionRow]:
    try:
        halves = admin.messages_by_key(HALF_TOPIC, key, LOOKED_OF_KEY)
    except RouteNotFound:
        return []
    halves = [half for half in halves if is_seen(half.properties.get(REAL_TOPIC, ""))][:MOST_OF_KEY]
    targets = [{"offset": half.queue_offset, "position": half.position} for half in halves]
    return [row for row in find_named(admin, targets).named if row is not None]


def pages_of(admin: Admin, wanted: TransactionFilter, *, now_ms: int) -> Iterator[list[TransactionRow]]:
    """Yield all pages of one state."""
    after: int | None = None
    while True:
        rows, after = page_of(admin, wanted, now_ms=now_ms, after=after, count=PAGE)
        yield rows
        if after is None:
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsPreview(BrokersPreview):
    """The transactions that would be touched."""

    #: how many are undecided now, all of the broker's; of those to be checked, how many have nobody to be asked
    met_count: int | None = None


class SteerTransactions(Kind[TransactionsPreview]):
    """Deciding transactions, and having their producers asked: one action of the broker on each that is chosen."""

    permission = STEER_TRANSACTIONS
    page, list_page = "transactions", "transaction_list"
    names_messages = True
    preview_type = TransactionsPreview
    preview_template = "transactions/operation_preview.html"
    #: a command of the palette for the transactions with a key, in words
    key_label: ClassVar[Words] = ""
    #: it gives messages to consumer groups
    delivers: ClassVar[bool] = False
    #: it asks producers, so those count that have none
    asks: ClassVar[bool] = False
    action: ClassVar[Action]
    #: its outcome when it was done, and when it was so before
    done: ClassVar[str]
    already: ClassVar[str]
    #: states that it may be done in
    states: ClassVar[tuple[str, ...]] = ("open", "parked")

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the rows that were selected, or the filter that they were found by; raises InvalidParameter."""
        if given.get("scope") == "matching":
            wanted = {name: given.get(name, "") for name in ("state", "group", "topic")}
            before_ms = whole_number(given.get("before_ms"))
            return {"filter": {**wanted, "before_ms": before_ms}, "is_all": given.get("is_all") == "1", **among()}
        return {"targets": [_place(text) for text in given.getlist("half")]}

    def commands(self, verb: str, rest: str) -> Iterator[Command]:
        """Yield one for the undecided transactions with a key; what follows the key is the reason."""
        key, _blank, reason = rest.partition(" ")

        def found() -> list[TransactionRow]:
            return [row for row in halves_named(key) if row.is_undecided]

        def parameters() -> dict[str, Any]:
            halves = found()
            if not halves:
                text = gettext("No undecided transaction has the key “%(key)s”.")
                raise InvalidParameter("targets", text % {"key": key[:80]})
            return {"targets": [{"offset": row.offset, "position": row.position} for row in halves]}

        label = str(self.key_label) % {"key": key}
        yield Command(
            f"{verb} {rest}", label, self.name, self.permission, parameters, reason.strip(),
            brokers=lambda: {row.broker for row in found()},
        )  # fmt: skip

    def scope(self, parameters: Mapping[str, Any], preview: Mapping[str, Any] | None) -> Scope:
        """Return the topics of the chosen transactions, or the topic of the filter."""
        return chosen_scope(parameters, preview)

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return how many were chosen, or by which filter."""
        if "targets" in parameters:
            count = len(parameters["targets"])
            words = ngettext("%(count)s selected transaction", "%(count)s selected transactions", count)
            return words % {"count": f"{count:,}"}
        wanted: dict[str, Any] = parameters["filter"]
        parts = [f"{name} {wanted[name]}" for name in ("group", "topic") if wanted[name]]
        if wanted["before_ms"] is not None:
            parts.append(gettext("stored until %(time)s") % {"time": time_words(wanted["before_ms"])})
        if parts:
            return gettext("all matching: %(filter)s") % {"filter": ", ".join(parts)}
        if wanted["state"] == "parked":
            return gettext("all parked transactions")
        return gettext("all undecided transactions")

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call of the action on many transactions."""
        return "POST", f"transactions:{self.action}", {**chosen_body("transactions", parameters, _FILTER), **REASON}

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return which ones, in one form."""
        if "targets" in parameters:
            return checked_brokers(parameters, {"targets": _targets(parameters["targets"])})
        given = parameters.get("filter")
        if not isinstance(given, Mapping):
            raise InvalidParameter("filter", "Name transactions (targets), or give a filter.")
        wanted = filter_of(given)
        if wanted.state not in self.states:
            raise InvalidParameter("state", f"This is done to transactions that are {' or '.join(self.states)}.")
        if wanted.is_empty and not parameters.get("is_all"):
            raise InvalidParameter("filter", "A filter without a condition matches all: use all.")
        fields = {name: getattr(wanted, name) for name in ("state", "group", "topic", "before_ms")}
        return checked_brokers(parameters, {"filter": fields, "is_all": bool(parameters.get("is_all"))})

    def preview(self, parameters: Mapping[str, Any]) -> TransactionsPreview:
        """Count them, with examples and topics, and what `met` and `behind` say."""
        shares = shares_of(parameters)
        told = look_at_each(shares, lambda admin, share: self._find(admin, share, PREVIEW_PATIENCE_S))
        parts: dict[str, TransactionsPreview] = {}
        for each in told:
            if each.answer is not None:
                with at(each.broker):
                    parts[each.broker] = self._preview(shares[each.broker], each.answer)
        if "" in shares:
            return parts[""]
        met = [part.met_count for part in parts.values() if part.met_count is not None]
        return TransactionsPreview(
            **totals(parts), met_count=sum(met) if met else None, brokers=counted(shares, parts, told)
        )

    def _preview(self, parameters: Mapping[str, Any], found: Found) -> TransactionsPreview:
        """Return the preview of what was found at one broker."""
        rows, count = found.rows, count_of(parameters, found.rows)
        missing = [] if found.is_whole else ["count"]
        behind = self.behind(rows)
        return TransactionsPreview(
            at_ms=found.now_ms,
            count=count,
            examples=[label_of(row) for row in rows[:EXAMPLES]],
            topics=topics_of([row.topic for row in rows]),
            met_count=self.met(rows, found),
            missing=[*missing, *(["transactions-polled"] if found.is_polled else [])],
            **(behind.as_fields() if behind else {}),
        )

    def met(self, rows: Sequence[TransactionRow], found: Found) -> int | None:
        """Return how many are undecided now, all of the broker's."""
        return found.undecided

    def behind(self, rows: Sequence[TransactionRow]) -> Behind | None:
        """Return how far consumer groups would be behind; None: they get nothing."""
        return None

    def targets(self, parameters: Mapping[str, Any], preview: TransactionsPreview) -> Sequence[Target]:
        """Return what matches now and was there when it was previewed; a named one stays, whatever became of it."""

        def targets_of(found: Found, share: Mapping[str, Any]) -> list[Target]:
            if "filter" in share:
                rows = there_before(found.rows, preview)
                return [Target({"offset": row.offset, "position": row.position}, label_of(row)) for row in rows]
            return [
                Target(target, label_of(row) if row is not None else {"name": f"{target['offset']:,}"})
                for target, row in zip(share["targets"], found.named, strict=True)
            ]

        shares = previewed(shares_of(parameters), preview)
        return find_at_each(shares, lambda admin, share: self._find(admin, share, None), targets_of)

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Act in the console's own name."""
        return self.act_as(_CONSOLE, parameters, reason, targets)

    def act_as(
        self, who: str, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]
    ) -> list[ItemResult]:
        """Send one request to each broker, which keeps who and why; to an Apache RocketMQ broker one for each half."""

        def steer(admin: Admin, own: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
            named = [TransactionTarget(target["offset"], target["position"]) for target in own]
            try:
                answer = admin.steer_transactions(self.action, named, who=who, reason=reason)
            except NotSupported:
                return records.steer(admin, self.action, self.done, own)
            return [self._result(steered) for steered in answer.results]

        return act_at_each(targets, steer)

    def page_of(self, item: OperationItem) -> tuple[str, str] | None:
        """Return the page of the half message."""
        position = item.result.get("position")
        if position is None:
            return None
        return gettext("Open half message"), address_at(item.target.get(OF, ""), "transaction", position)

    def _result(self, steered: SteeredTransaction) -> ItemResult:
        place = {"offset": steered.offset, "position": steered.position}
        if steered.outcome == "refused":
            return ItemResult("refused", {**place, "error": steered.error, "code": steered.code})
        return ItemResult(self.done if steered.outcome == "done" else self.already, place)

    def _find(self, admin: Admin, parameters: Mapping[str, Any], patience_s: float | None) -> Found:
        if "filter" in parameters:
            return find_matching(admin, filter_of(parameters["filter"]), most=LIMIT + 1, patience_s=patience_s)
        return find_named(admin, parameters["targets"])


@register
class CommitTransactions(SteerTransactions):
    """The operation that commits halves: consumers get their messages."""

    name = "transactions.commit"
    destroys = True
    is_red = False
    title, verb = _("Commit transactions"), ngettext_lazy("Commit transaction", "Commit transactions", "count")
    begun_on = "transaction_list"
    effect = _("The messages are delivered to their topics, whatever their databases say. This cannot be undone.")
    outcomes = {**_DECIDED, "committed": Outcome(_("committed"))}
    verbs = ("commit", "提交")
    key_label = _("Commit the transactions with the key “%(key)s”")
    action = "commit"
    done, already = "committed", "already_committed"
    is_final = delivers = True

    def behind(self, rows: Sequence[TransactionRow]) -> Behind | None:
        """Return how far every group of their topics would be behind."""
        return behind_after(site_broker.admin(), Counter(row.topic for row in rows))

    def lag_now(self, parameters: Mapping[str, Any], preview: TransactionsPreview) -> int | None:
        """Return how far every group of their topics is behind."""
        return lag_of_topics(topic for topic, _count in preview.topics)

    def lag_of(self, parameters: Mapping[str, Any], preview: TransactionsPreview) -> str:
        """Return that it is of every group of their topics."""
        return in_words(topic for topic, _count in preview.topics)


@register
class RollBackTransactions(SteerTransactions):
    """The operation that rolls halves back: their messages are dropped."""

    name = "transactions.rollback"
    destroys = True
    title, verb = _("Roll back transactions"), ngettext_lazy("Roll back transaction", "Roll back transactions", "count")
    begun_on = "transaction_list"
    effect = _("Consumers never get these messages. This cannot be undone.")
    outcomes = {**_DECIDED, "rolled_back": Outcome(_("rolled back"))}
    verbs = ("rollback", "回滚")
    key_label = _("Roll back the transactions with the key “%(key)s”")
    action = "rollback"
    done, already = "rolled_back", "already_rolled_back"
    is_final = True


@register
class CheckTransactions(SteerTransactions):
    """The operation that has the producers of halves asked at once."""

    name = "transactions.check"
    title, verb = _("Check producers now"), _("Check now")
    begun_on = "transaction_list"
    effect = _("A connected producer of each group is checked immediately; this counts as one of the checks.")
    outcomes = {**_DECIDED, "check_planned": Outcome(_("check due"))}
    verbs = ("check", "回查")
    key_label = _("Check the transactions with the key “%(key)s”")
    action = "check"
    done, already = "check_planned", "check_planned"
    states = ("open",)
    asks = True

    def met(self, rows: Sequence[TransactionRow], found: Found) -> int | None:
        """Return how many of them have nobody to be asked."""
        return sum(row.is_alone for row in rows)


@register
class ResumeTransactions(SteerTransactions):
    """The operation that resumes parked halves: they are asked about again."""

    name = "transactions.resume"
    title, verb = _("Resume checking"), _("Resume checking")
    effect = _(
        "Parked transactions become undecided and are checked again; for open ones the count of checks restarts."
    )
    outcomes = {**_DECIDED, "checks_resumed": Outcome(_("checks resumed"))}
    action = "resume"
    done, already = "checks_resumed", "checks_resumed"


def filter_of(given: Mapping[str, Any]) -> TransactionFilter:
    """Return the filter of the parameters; raises InvalidParameter."""
    wanted = checked_filter(given, ("state", "group", "topic"), ("before_ms",), _TEXT_LENGTH)
    return TransactionFilter(**{**wanted, "state": wanted["state"] or "open"})


def label_of(row: TransactionRow) -> dict[str, Any]:
    """Return what people see of a transaction."""
    return {
        "topic": row.topic,
        "name": row.name[:200],
        "position": row.position,
        "group": row.group,
        "store_ms": row.store_ms,
        "checks": row.checks,
        "is_alone": row.is_alone,
    }


def _targets(given: Any) -> list[dict[str, Any]]:
    if not isinstance(given, list) or not 0 < len(given) <= MOST_TARGETS:
        raise InvalidParameter("targets", f"Name 1 to {MOST_TARGETS:,} transactions; for more, use a filter.")
    for target in given:
        if (
            not isinstance(target, Mapping)
            or set(target) - {"broker"} != {"offset", "position"}
            or not is_whole(target["offset"])
            or not is_whole(target["position"])
            or not isinstance(target.get("broker", ""), str)
        ):
            raise InvalidParameter("targets", "A transaction is named by the offset and the position of its half.")
    unique = {(target.get("broker"), target["position"]): dict(target) for target in given}
    return list(unique.values())


def _place(text: str) -> dict[str, Any]:
    """Return the target that a row of the list names as `offset-position`, of several brokers `offset-position-broker`;
    raises InvalidParameter."""
    first, second, broker = (*text.split("-", 2), "", "")[:3]
    offset, position = whole_number(first), whole_number(second)
    if offset is None or position is None:
        raise InvalidParameter("targets", gettext("This transaction is unknown; reload the page."))
    return {"offset": offset, "position": position, **({"broker": broker} if broker else {})}
