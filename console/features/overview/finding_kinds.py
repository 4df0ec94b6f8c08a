"""The kinds of finding that are worth a look: all that is said about each, gravest first.

A new kind is a line here, the place in `findings.py` where it is noticed, and its texts in the translation.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from console.site.chosen import choice_of, choosing

#: "ruby": broken; "brass": worth a look
Severity = Literal["ruby", "brass"]
Text = str | Promise

#: a crowd of timers is shown in the stretch that begins so long before it
_BEFORE_MS = 5 * 60_000


@dataclass(frozen=True, slots=True)
class Finding:
    """A state of affairs that needs somebody's attention."""

    code: FindingCode
    #: a group's name, a level's number, a broker's name
    subject: str
    #: the number that belongs to it: messages, queues, per cent; None when there is none
    value: int | None = None
    #: the broker's own words, when there are any (escape)
    detail: str = ""
    #: for how long, or by how much, in ms; None when it does not apply
    span_ms: int | None = None
    #: the moment that it is about
    at_ms: int | None = None
    #: the operation that it is about; `subject` is its kind then
    operation: str = ""
    #: which of several brokers it is about; empty: the only one, or all of them
    broker: str = ""
    #: there may be more than `value`
    is_least: bool = False
    #: whoever looks sees all that it is about, and may snooze it for everybody
    may_be_marked: bool = True

    @property
    def severity(self) -> Severity:
        """The gravity of the finding, which decides its mark."""
        return self.code.value.severity

    @property
    def label(self) -> Text:
        """The name of the finding, without its figures."""
        return self.code.value.label

    @property
    def key(self) -> str:
        """What tells it from others of its kind at the same place; herds come and go, so they have one together."""
        return "" if self.code is FindingCode.HERD_AHEAD else self.operation or self.subject

    @property
    def measure(self) -> int | None:
        """The figure that says whether it got worse; None: it has none."""
        by = self.code.value.worsens_by
        return self.value if by == "value" else self.span_ms if by == "span" else None

    @property
    def own_page(self) -> str:
        """The address at which it is snoozed or ignored."""
        asked = {"kind": self.code.value.name, "subject": self.key, "broker": self.broker}
        return reverse("finding") + "?" + urlencode({name: value for name, value in asked.items() if value})

    @property
    def link(self) -> Link | None:
        """The one page where it is understood and acted on; None where the first page already says all."""
        follow = self.code.value.link
        if follow is None:
            return None
        with choosing(choice_of(self.broker)) if self.broker else nullcontext():
            return follow(self)


@dataclass(frozen=True, slots=True)
class Link:
    """The address of a page, and what the button that leads there says."""

    address: str
    label: Text


# compared by identity: to compare the texts would translate them while this module is imported
@dataclass(frozen=True, slots=True, eq=False)
class FindingKind:
    """The properties that all findings of one kind have in common.

    A sentence may name `%(figure)s`, the finding's value; `%(gap)s`, its span; `%(when)s`, its moment. The number that
    its plural follows is called "value".
    """

    name: str
    severity: Severity
    label: Text
    sentence: Text = ""
    #: said after the sentence where the finding has a span
    with_span: Text = ""
    link: Callable[[Finding], Link | None] | None = None
    #: what its subject is, or whose it is: of a broker there is one at each
    about: Literal["broker", "group", "queue", "operation"] = "broker"
    #: what says that it got worse; "": nothing does (how long it is so grows by itself), "detail": other reasons
    worsens_by: Literal["value", "span", "detail", ""] = "value"
    #: how many times as much is worse
    worse_at: float = 2.0
    #: name of the kind that it is when it is better: who put that off, put this off as well
    mild_form_of: str = ""


def _group(finding: Finding) -> Link:
    return Link(reverse("group", args=[finding.subject]), _("Open group"))


def _dead_letters(finding: Finding) -> Link:
    return Link(reverse("dead_letters_of", args=[finding.subject]), _("Open dead letters"))


def _lane(finding: Finding) -> Link:
    return Link(reverse("lane", args=[int(finding.subject)]), _("Open delay level"))


def _queue(finding: Finding) -> Link:
    return Link(reverse("delayed_queue") + "?" + urlencode({"name": finding.subject}), _("Open queue"))


def _timers(_finding: Finding) -> Link:
    return Link(reverse("timers"), _("Open timers"))


def _wheel(finding: Finding) -> Link | None:
    if finding.at_ms is None:
        return None
    return Link(reverse("timers") + f"?zoom=1h&at={finding.at_ms - _BEFORE_MS}", _("Open the wheel at that time"))


def _transactions(state: str) -> Callable[[Finding], Link]:
    return lambda _finding: Link(reverse("transaction_list") + "?" + urlencode({"state": state}), _("Open list"))


def _operation(finding: Finding) -> Link | None:
    if not finding.operation:
        return None
    return Link(reverse("operation", args=[finding.operation]), _("Open operation"))


class FindingCode(Enum):
    """The kinds, gravest first: findings are listed in this order."""

    STORE_FAILED = FindingKind(
        "store-failed",
        "ruby",
        _("the store has failed"),
        worsens_by="detail",
    )
    BROKER_UNREACHABLE = FindingKind(
        "broker-unreachable",
        "ruby",
        _("the broker cannot be reached"),
        _("What is shown is %(gap)s old."),
        worsens_by="",
    )
    BROKER_READ_ONLY = FindingKind(
        "broker-read-only",
        "ruby",
        _("sends are refused"),
        worsens_by="detail",
    )
    RECORDS_DAMAGED = FindingKind(
        "records-damaged",
        "ruby",
        _("records are damaged"),
        ngettext_lazy(
            "%(figure)s place of the log cannot be read; everything else is served.",
            "%(figure)s places of the log cannot be read; everything else is served.",
            "value",
        ),
    )
    BROKER_DEGRADED = FindingKind(
        "broker-degraded",
        "brass",
        _("the broker is degraded"),
        worsens_by="detail",
    )
    MIRROR_STALE = FindingKind(
        "mirror-stale",
        "brass",
        _("the mirror has stopped"),
        _("What is shown is %(gap)s old."),
        worsens_by="",
    )
    MIRROR_FLAWED = FindingKind(
        "mirror-flawed",
        "brass",
        _("some rows differ from the broker"),
        ngettext_lazy(
            "%(figure)s row holds a value that cannot be stored: it is truncated, or the row left out, until the "
            "broker reports another. All others are mirrored.",
            "%(figure)s rows hold values that cannot be stored: they are truncated, or the rows left out, until "
            "the broker reports others. All others are mirrored.",
            "value",
        ),
    )
    RELEASED_EARLY = FindingKind(
        "released-early",
        "ruby",
        _("messages were released early"),
        ngettext_lazy(
            "%(figure)s early release since the last start; the broker's clock may have been set.",
            "%(figure)s early releases since the last start; the broker's clock may have been set.",
            "value",
        ),
        link=_lane,
    )
    DISK_FILLING = FindingKind(
        "disk-filling",
        "brass",
        _("the disk is filling"),
        _("%(figure)s %% used; sends are refused above 90 %%, consumers still drain."),
        worse_at=1.05,
    )
    TIMERS_LATE = FindingKind(
        "timers-late",
        "brass",
        _("timers are overdue"),
        ngettext_lazy(
            "%(figure)s timer is overdue, by %(gap)s.", "%(figure)s timers are overdue, the first by %(gap)s.", "value"
        ),
        link=_timers,
    )
    DELAYED_STUCK = FindingKind(
        "delayed-stuck",
        "ruby",
        _("due values in Redis are not transferred"),
        ngettext_lazy(
            "%(figure)s value has been due for %(gap)s and is not transferred.",
            "%(figure)s values are due, the first for %(gap)s, and not transferred.",
            "value",
        ),
        link=_queue,
        about="queue",
    )
    DELAYED_DAMAGED = FindingKind(
        "delayed-damaged",
        "brass",
        _("a queue in Redis is damaged"),
        _("Its list and set differ, or it holds values that cannot be read."),
        link=_queue,
        about="queue",
        worsens_by="detail",
    )
    LANE_LATE = FindingKind(
        "lane-late",
        "brass",
        _("a delay level is overdue"),
        _("The first message was overdue by %(gap)s when the broker was last polled."),
        link=_lane,
        worsens_by="span",
    )
    TRANSACTIONS_PARKED = FindingKind(
        "transactions-parked",
        "brass",
        _("transactions need an operator"),
        ngettext_lazy(
            "%(figure)s half message reached the check limit without a decision of its producer.",
            "%(figure)s half messages reached the check limit without a decision of their producers.",
            "value",
        ),
        link=_transactions("parked"),
    )
    OPERATION_WAITS = FindingKind(
        "operation-waits",
        "brass",
        _("waiting for approval"),
        _("%(figure)s affected; it expires at %(when)s."),
        link=_operation,
        about="operation",
        worsens_by="",
    )
    GROUP_STANDS_STILL = FindingKind(
        "group-stands-still",
        "brass",
        _("a group has consumers but consumes nothing"),
        ngettext_lazy(
            "%(figure)s message is pending; the connected consumers have consumed nothing for at least %(gap)s.",
            "%(figure)s messages are pending; the connected consumers have consumed nothing for at least %(gap)s.",
            "value",
        ),
        link=_group,
        about="group",
    )
    GROUP_WITHOUT_CONSUMER = FindingKind(
        "group-without-consumer",
        "brass",
        _("a group has messages but no consumer"),
        ngettext_lazy(
            "%(figure)s message is pending and no consumer is connected.",
            "%(figure)s messages are pending and no consumer is connected.",
            "value",
        ),
        _("Nothing consumed for at least %(gap)s."),
        _group,
        about="group",
    )
    DEAD_LETTERS_GROWING = FindingKind(
        "dead-letters-growing",
        "brass",
        _("messages are being dead-lettered"),
        ngettext_lazy(
            "%(figure)s message was dead-lettered in the last 5 min.",
            "%(figure)s messages were dead-lettered in the last 5 min.",
            "value",
        ),
        link=_dead_letters,
        about="group",
    )
    TRANSACTIONS_AGEING = FindingKind(
        "transactions-ageing",
        "brass",
        _("half messages stay undecided"),
        ngettext_lazy(
            "%(figure)s half message; the oldest has been undecided for %(gap)s.",
            "%(figure)s half messages; the oldest has been undecided for %(gap)s.",
            "value",
        ),
        link=_transactions("open"),
    )
    HERD_AHEAD = FindingKind(
        "herd-ahead",
        "brass",
        _("more messages will be due than can be released in time"),
        ngettext_lazy(
            "%(figure)s message is due at %(when)s; the last is released about %(gap)s late.",
            "%(figure)s messages are due at %(when)s; the last is released about %(gap)s late.",
            "value",
        ),
        link=_wheel,
    )
    DEAD_LETTERS = FindingKind(
        "dead-letters",
        "brass",
        _("messages have used up their retries"),
        ngettext_lazy(
            "%(figure)s message failed after its last retry.",
            "%(figure)s messages failed after their last retry.",
            "value",
        ),
        link=_dead_letters,
        about="group",
        mild_form_of="dead-letters-growing",
    )
    PROGRESS_UNSAVED = FindingKind(
        "progress-unsaved",
        "brass",
        _("a delay level's progress has not been saved recently"),
        _("Last saved %(gap)s before the broker was last polled; a restart repeats nothing the log already holds."),
        link=_lane,
        worsens_by="",
    )


#: every kind by the name that marks and addresses have for it
CODES = {code.value.name: code for code in FindingCode}
