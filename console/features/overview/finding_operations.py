"""Findings snoozed until a moment, ignored until they change, and counted again.

    {"kind": "group-without-consumer", "subject": "billing", "place": "", "until_ms": 1795247527000}    snooze
    {"kind": "group-without-consumer", "subject": "billing", "place": "", "until_ms": null}             ignore
    {"kind": "group-without-consumer", "subject": "billing", "place": ""}                               lift

`place` is a broker as its rows name it, or "" (of a further cluster "lisbon/") for all brokers in total. Who may
silence alerts may do this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.http import Http404, QueryDict
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from broker.mirror.models import Broker
from console.features.overview.finding_kinds import CODES, Finding, FindingCode
from console.features.overview.finding_marks import FindingMark, lift, marked_as, open_marks, place_of
from console.features.overview.findings import server_facts
from console.features.overview.pages import read_overview
from console.operations.actor import SILENCE_ALERTS, UNBOUNDED, Scope, named
from console.operations.errors import InvalidParameter, NotPossible
from console.operations.kind import REASON, AtOnce, Call, ChangesPreview, ItemResult, Outcome, Target, Undo, renamed
from console.operations.models import AuditEntry, Operation
from console.operations.registry import register
from console.security.topic_scope import EVERYTHING
from console.site.broker import brokers_of
from console.site.chosen import Choice, choice_of, choosing
from console.site.clock import real_now_ms as now_ms
from console.site.mirrored import Cluster, cluster

LONGEST_MS = 366 * 86_400_000
#: in whose name marks end by themselves
BY_ITSELF = "escapement"


class _MarkKind(AtOnce[ChangesPreview]):
    """An operation on the mark of one finding; it is one item."""

    permission, page = SILENCE_ALERTS, "overview"
    leave_words = _("Open overview")
    preview_type = ChangesPreview
    preview_template = "overview/mark_preview.html"
    has_figures = False

    def scope(self, parameters: Mapping[str, Any], preview: Mapping[str, Any] | None) -> Scope:
        """Return the group or queue that it is about; what a broker says is everybody's."""
        code, subject = CODES.get(str(parameters.get("kind"))), parameters.get("subject")
        about = code.value.about if code is not None else ""
        if about == "group":
            return Scope(groups=named(subject))
        return Scope(queues=named(subject)) if about == "queue" else UNBOUNDED

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return what is found, and of what."""
        return _words(parameters["kind"], parameters["subject"], parameters["place"])

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return which finding is meant."""
        kind, subject, place = (parameters.get(name, "") for name in ("kind", "subject", "place"))
        if not isinstance(kind, str) or kind not in CODES:
            raise InvalidParameter("kind", f"kind is one of {', '.join(CODES)}.")
        if not isinstance(subject, str) or len(subject) > 255:
            raise InvalidParameter("subject", "subject is a name.")
        if not isinstance(place, str) or place not in _places():
            raise InvalidParameter("place", "place is a broker, or empty.")
        return {"kind": kind, "subject": subject, "place": place}

    def targets(self, parameters: Mapping[str, Any], preview: ChangesPreview) -> Sequence[Target]:
        """Return the one finding that it is about."""
        target = {name: parameters[name] for name in ("kind", "subject", "place")}
        return [Target(target, {"name": self.selection(parameters)})]

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that does it."""
        names = {"kind": "kind", "subject": "subject", "place": "place", "until_ms": "until"}
        return "POST", self.name.replace(".", "/"), {**renamed(parameters, names), **REASON}


@register
class SnoozeFinding(_MarkKind):
    """Snooze a finding until a moment, or ignore it until it changes."""

    name = "findings.snooze"
    title, verb = _("Snooze a finding"), _("Snooze")
    effect = _("It is listed below and does not count, until then or until it gets worse.")
    outcomes = {"put_off": Outcome(_("snoozed"))}
    undone_by = "findings.lift"

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return which finding, and until when; None: until it changes."""
        until = parameters.get("until_ms")
        is_moment = isinstance(until, int) and not isinstance(until, bool) and 0 < until - now_ms() <= LONGEST_MS
        if until is not None and not is_moment:
            raise InvalidParameter("until", gettext("It must end in the future, within a year."))
        return {**super().checked(parameters), "until_ms": until}

    def preview(self, parameters: Mapping[str, Any]) -> ChangesPreview:
        """Say until when; raises NotPossible for a finding that is not there."""
        _finding_of(parameters)
        held = _mark_of(parameters)
        changes = [["until_ms", held.until_ms if held is not None else None, parameters["until_ms"]]]
        return ChangesPreview(at_ms=now_ms(), count=1, changes=changes)

    def done(self, who: str, parameters: Mapping[str, Any], reason: str) -> ItemResult:
        """Write its row; one that is there is over."""
        finding, held = _finding_of(parameters), _mark_of(parameters)
        if held is not None:
            lift(held, FindingMark.Why.LIFTED)
        until_ms = parameters["until_ms"]
        row = FindingMark.objects.create(
            kind=parameters["kind"],
            subject=parameters["subject"],
            place=parameters["place"],
            until=None if until_ms is None else datetime.fromtimestamp(until_ms / 1_000, UTC),
            figure=finding.measure,
            detail=finding.detail,
            reason=reason,
            actor=who[:150],
        )
        return ItemResult("put_off", {"mark": row.pk})

    def undo_of(self, row: Operation) -> Undo | None:
        """Return that it can be lifted, if it did something."""
        return Undo(row.is_over and bool(row.results.get("put_off")))

    def undo_parameters(self, row: Operation, given: QueryDict) -> dict[str, Any]:
        """Return which finding counts again."""
        return {name: row.parameters[name] for name in ("kind", "subject", "place")}


@register
class LiftFinding(_MarkKind):
    """Count a finding again that was snoozed or ignored."""

    name = "findings.lift"
    title, verb = _("End the snooze of a finding"), _("Count it again")
    effect = _("It stands among the findings again and counts.")
    outcomes = {"counted": Outcome(_("counted again"))}

    def preview(self, parameters: Mapping[str, Any]) -> ChangesPreview:
        """Say until when it would have been; raises NotPossible."""
        held = _held(parameters)
        return ChangesPreview(at_ms=now_ms(), count=1, changes=[["until_ms", held.until_ms, now_ms()]])

    def done(self, who: str, parameters: Mapping[str, Any], reason: str) -> ItemResult:
        """Write down that its mark is over."""
        lift(_held(parameters), FindingMark.Why.LIFTED)
        return ItemResult("counted")

    def audited(self, result: Mapping[str, Any]) -> str:
        """Return why it was lifted, where nobody did."""
        why = dict(FindingMark.Why.choices).get(result.get("why", ""))
        return "" if why is None else f"{result.get('finding', '')} · {gettext('by itself')}: {why}"


def settle() -> int:
    """Write down which marks are over, each with an entry of the audit; return how many. Asks once for each place."""
    lifted = 0
    marks = list(open_marks())
    for place in {mark.place for mark in marks}:
        found, known = _told(place)
        for mark in (mark for mark in marks if mark.place == place):
            why = mark.over_by(found.get((mark.kind, mark.subject, mark.place)), timezone.now())
            # of what is not known now nothing is gone
            if why is None or (why == FindingMark.Why.GONE and mark.kind not in known):
                continue
            lift(mark, why)
            result = {"finding": _words(mark.kind, mark.subject, mark.place), "why": why.value}
            AuditEntry.objects.create(
                actor=BY_ITSELF, what=AuditEntry.What.DONE, kind=LiftFinding.name, reason=mark.reason, result=result
            )
            lifted += 1
    return lifted


def _told(place: str) -> tuple[dict[tuple[str, str, str], Finding], frozenset[str]]:
    """Return the findings at a place, and the kinds of which all are known; nothing of a broker that is not there."""
    with choosing(choice_of(place)):
        try:
            of = cluster()
        except Http404:
            return {}, frozenset()
        return _findings(of), _known(of)


def _findings(of: Cluster) -> dict[tuple[str, str, str], Finding]:
    """Return all findings of the brokers that are chosen, by what marks name them with."""
    data = read_overview.within(EVERYTHING)
    every = [*data.findings, *(each.finding for each in data.put_off)]
    # of several with one key the greatest counts, which comes first; what stands for its mild form gives way to itself
    found = {(kind, each.key, place_of(each, of)): each for each in reversed(every) for kind in marked_as(each)[1:]}
    return found | {(each.code.value.name, each.key, place_of(each, of)): each for each in reversed(every)}


def _known(of: Cluster) -> frozenset[str]:
    """Return the kinds of which all findings are known now."""
    if of.evidence(polled_by=()).stale:
        return frozenset()
    facts = [server_facts(here) for here in brokers_of(of)]
    unknown = set[FindingCode]()
    if not facts or facts[0].queues is None:
        unknown |= {FindingCode.DELAYED_STUCK, FindingCode.DELAYED_DAMAGED}
    if any(each.timers is None for each in facts):
        unknown |= {FindingCode.TIMERS_LATE, FindingCode.HERD_AHEAD}
    return frozenset(name for name, code in CODES.items() if code not in unknown)


def _finding_of(parameters: Mapping[str, Any]) -> Finding:
    """Return the finding that is meant as it is now; raises NotPossible."""
    with choosing(choice_of(parameters["place"])):
        found = _findings(cluster()).get((parameters["kind"], parameters["subject"], parameters["place"]))
    if found is None or found.code.value.name != parameters["kind"]:
        raise NotPossible("This finding is not there any more.")
    return found


def _mark_of(parameters: Mapping[str, Any]) -> FindingMark | None:
    return open_marks().filter(**{name: parameters[name] for name in ("kind", "subject", "place")}).first()


def _held(parameters: Mapping[str, Any]) -> FindingMark:
    held = _mark_of(parameters)
    if held is None:
        raise NotPossible("This finding is not snoozed any more.")
    return held


def _words(kind: str, subject: str, place: str) -> str:
    label = str(CODES[kind].value.label)
    about = ", ".join(name for name in dict.fromkeys((subject, place)) if name)
    return f"{about}: {label}" if about else label


def _places() -> frozenset[str]:
    """Return where findings are marked: at a broker, or in a cluster in total."""
    clusters = (Choice(entry).text for entry in ("", *settings.ESCAPEMENT_CLUSTERS))
    return frozenset((*clusters, *Broker.objects.values_list("name", flat=True)))
