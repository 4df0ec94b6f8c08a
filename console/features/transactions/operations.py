"""Commit, roll back, ask about and resume transactions: the named ones, or all that match a filter.

    {"targets": [{"offset": 12, "position": 4711}, ...]}
    {"filter": {"state": "open", "group": "", "topic": "", "before_ms": 1795247527000}, "is_all": False}

A filter that names nothing but a state means everything in it and must be asked for by `is_all`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from broker.client import NotSupported
from broker.client.transactions import Action, SteeredTransaction, TransactionTarget
from console.features.transactions import apache_operations
from console.features.transactions.find import Found, find_matching, find_named
from console.features.transactions.shapes import TransactionFilter, TransactionRow
from console.operations.actor import STEER_TRANSACTIONS
from console.operations.catch_up import Behind, behind_after
from console.operations.errors import InvalidParameter
from console.operations.found_rows import EXAMPLES, PREVIEW_PATIENCE_S, count_of, there_before, topics_of
from console.operations.kind import LIMIT, ItemResult, Kind, Target
from console.operations.preview import Preview
from console.site import broker as site_broker

#: named at once, as for timers
MOST_TARGETS = 1_000
_TEXT_LENGTH = 255
_CONSOLE = "console"


class SteerTransactions(Kind):
    """What the four have in common."""

    permission = STEER_TRANSACTIONS
    page = "transactions"
    action: ClassVar[Action]
    #: what it is called when it was done, and when it was so before
    done: ClassVar[str]
    already: ClassVar[str]
    #: states that it may be done in
    states: ClassVar[tuple[str, ...]] = ("open", "parked")

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Which ones, in one form."""
        if "targets" in parameters:
            return {"targets": _targets(parameters["targets"])}
        given = parameters.get("filter")
        if not isinstance(given, Mapping):
            raise InvalidParameter("filter", "Name transactions (targets), or give a filter.")
        wanted = filter_of(given)
        if wanted.state not in self.states:
            raise InvalidParameter("state", f"This is done to transactions that are {' or '.join(self.states)}.")
        if wanted.is_empty and not parameters.get("is_all"):
            raise InvalidParameter("filter", "A filter without any condition is every one; say so with all.")
        fields = {name: getattr(wanted, name) for name in ("state", "group", "topic", "before_ms")}
        return {"filter": fields, "is_all": bool(parameters.get("is_all"))}

    def preview(self, parameters: Mapping[str, Any]) -> Preview:
        """Count, examples, topics; how many are undecided now, and of those hit, how many have nobody to be asked."""
        found = self._find(parameters, PREVIEW_PATIENCE_S)
        rows, count = found.rows, count_of(parameters, found.rows)
        missing = [] if found.is_whole else ["count"]
        behind = self.behind(rows)
        return Preview(
            at_ms=found.now_ms,
            count=count,
            examples=[label_of(row) for row in rows[:EXAMPLES]],
            topics=topics_of(rows),
            met_count=self.met(rows, found),
            missing=[*missing, *(["transactions-polled"] if found.is_polled else [])],
            **(behind.as_fields() if behind else {}),
        )

    def met(self, rows: Sequence[TransactionRow], found: Found) -> int | None:
        """How many are undecided now, all of the broker's."""
        return found.undecided

    def behind(self, rows: Sequence[TransactionRow]) -> Behind | None:
        """How far consumer groups would be behind; None: it shows them nothing."""
        return None

    def targets(self, parameters: Mapping[str, Any], preview: Preview) -> Sequence[Target]:
        """What matches now and was there when it was previewed; a named one stays, whatever became of it."""
        found = self._find(parameters, None)
        if "filter" in parameters:
            rows = there_before(found.rows, preview)
            return [Target({"offset": row.offset, "position": row.position}, label_of(row)) for row in rows]
        return [
            Target(target, label_of(row) if row is not None else {"name": f"{target['offset']:,}"})
            for target, row in zip(parameters["targets"], found.named, strict=True)
        ]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """In the console's own name."""
        return self.act_as(_CONSOLE, parameters, reason, targets)

    def act_as(
        self, who: str, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]
    ) -> list[ItemResult]:
        """One request to the broker, which keeps who and why; on an Apache RocketMQ broker one each."""
        admin = site_broker.admin()
        named = [TransactionTarget(target["offset"], target["position"]) for target in targets]
        try:
            answer = admin.steer_transactions(self.action, named, who=who, reason=reason)
        except NotSupported:
            return apache_operations.steer(admin, self.action, self.done, targets)
        return [self._result(steered) for steered in answer.results]

    def _result(self, steered: SteeredTransaction) -> ItemResult:
        place = {"offset": steered.offset, "position": steered.position}
        if steered.outcome == "refused":
            return ItemResult("refused", {**place, "error": steered.error, "code": steered.code})
        return ItemResult(self.done if steered.outcome == "done" else self.already, place)

    def _find(self, parameters: Mapping[str, Any], patience_s: float | None) -> Found:
        admin = site_broker.admin()
        if "filter" in parameters:
            return find_matching(admin, filter_of(parameters["filter"]), most=LIMIT + 1, patience_s=patience_s)
        return find_named(admin, parameters["targets"])


class CommitTransactions(SteerTransactions):
    """Their messages are shown."""

    name = "transactions.commit"
    action = "commit"
    done, already = "committed", "already_committed"
    is_final = True

    def behind(self, rows: Sequence[TransactionRow]) -> Behind | None:
        """Every group of their topics gets them at once."""
        return behind_after(site_broker.admin(), Counter(row.topic for row in rows))


class RollBackTransactions(SteerTransactions):
    """Their messages are dropped."""

    name = "transactions.rollback"
    action = "rollback"
    done, already = "rolled_back", "already_rolled_back"
    is_final = True


class CheckTransactions(SteerTransactions):
    """Their producers are asked at once."""

    name = "transactions.check"
    action = "check"
    done, already = "check_planned", "check_planned"
    states = ("open",)

    def met(self, rows: Sequence[TransactionRow], found: Found) -> int | None:
        """How many of them have nobody to be asked."""
        return sum(row.is_alone for row in rows)


class ResumeTransactions(SteerTransactions):
    """Parked ones are asked about again."""

    name = "transactions.resume"
    action = "resume"
    done, already = "checks_resumed", "checks_resumed"


def filter_of(given: Mapping[str, Any]) -> TransactionFilter:
    """The filter of the parameters; raises InvalidParameter."""
    texts = {name: given.get(name) or "" for name in ("state", "group", "topic")}
    for name, text in texts.items():
        if not isinstance(text, str) or len(text) > _TEXT_LENGTH:
            raise InvalidParameter(name, f"{name} is a text of at most {_TEXT_LENGTH} characters.")
    before_ms = given.get("before_ms")
    if before_ms is not None and (
        not isinstance(before_ms, int) or isinstance(before_ms, bool) or not 0 <= before_ms < 2**63
    ):
        raise InvalidParameter("before_ms", "before_ms is a moment in epoch milliseconds.")
    return TransactionFilter(texts["state"] or "open", texts["group"], texts["topic"], before_ms)


def label_of(row: TransactionRow) -> dict[str, Any]:
    """What people see of a transaction."""
    return {
        "topic": row.topic, "name": row.name[:200], "position": row.position, "group": row.group,
        "store_ms": row.store_ms, "checks": row.checks, "is_alone": row.is_alone,
    }  # fmt: skip


def _targets(given: Any) -> list[dict[str, int]]:
    if not isinstance(given, list) or not 0 < len(given) <= MOST_TARGETS:
        raise InvalidParameter("targets", f"Name 1 to {MOST_TARGETS:,} transactions; for more, use a filter.")
    for target in given:
        if not isinstance(target, Mapping) or set(target) != {"offset", "position"} or not all(
            isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**63
            for number in target.values()
        ):  # fmt: skip
            raise InvalidParameter("targets", "A transaction is named by the offset and the position of its half.")
    unique = {target["position"]: dict(target) for target in given}
    return list(unique.values())
