"""The shapes of the page of a broker, and of the list of brokers: what they hold, and the sentence they begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.features.brokers.catalogue import LONGEST_VALUE, Heading, Known, is_secret, known
from console.features.clients import ClientRole
from console.site.chosen import choice_of, choosing
from console.site.evidence import Evidence
from console.ui.table import Table, file_columns
from console.ui.verdicts import Verdict, not_known, said

#: so full that the first sentence says so
NEARLY_FULL = 0.9
#: groups that a line of clients names
GROUPS_NAMED = 8
#: what is shown in the place of what is not to be read
HIDDEN = "••••••"

SETTINGS = Table(
    "broker-settings", file_columns("name heading value unit default started is_changed is_changeable meaning")
)
BROKERS = Table(
    "brokers",
    file_columns("name cluster address version state reasons started_ms slaves disk_used_ratio topics groups members"),
)


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting as the broker has it. `started` None: the broker does not tell what it was started with.

    `text` is what stands in the field of the form, `fault` what is wrong with it; without `has_field` it has none.
    """

    name: str
    value: str
    default: str | None
    started: str | None
    allowed: str
    has_field: bool
    text: str = ""
    fault: str = ""

    @property
    def known(self) -> Known:
        """What is known of it."""
        return known(self.name)

    @property
    def heading(self) -> str:
        """The heading that it stands under."""
        return str(self.known.heading.value)

    @property
    def meaning(self) -> str:
        """What it means; "" where nobody here knows."""
        return str(self.known.meaning)

    @property
    def unit(self) -> str:
        """The unit of its value."""
        return self.known.unit

    @property
    def is_changed(self) -> bool:
        """Tell whether it is another than what the program has by default."""
        return self.default is not None and self.value != self.default

    @property
    def is_kept(self) -> bool:
        """Tell whether it was changed while the broker ran."""
        return self.started is not None and self.value != self.started

    @property
    def is_changeable(self) -> bool:
        """Tell whether it can be changed while the broker runs."""
        return self.has_field

    @property
    def bytes(self) -> int | None:
        """Its value as a size, where it is one."""
        return int(self.value) if self.unit == "bytes" and self.value.isdigit() else None


def setting_row(name: str, value: str, default: str | None, started: str | None, allowed: str | None) -> SettingRow:
    """Return the row of a setting as a broker tells of it; None: it does not tell (of `allowed`: what is known counts).

    What may be a secret is not in it.
    """
    if is_secret(name):
        return SettingRow(name, HIDDEN if value and value not in ("{}", "false") else value, None, None, "", False)
    can = known(name).is_changeable and (allowed is None or bool(allowed))
    return SettingRow(name, value, default, started, allowed or "", can, text=value[:LONGEST_VALUE])


@dataclass(frozen=True, slots=True)
class SettingGroup:
    """The settings under one heading."""

    heading: Heading
    rows: tuple[SettingRow, ...]


@dataclass(frozen=True, slots=True)
class Room:
    """Something of which there is only so much. `most` None: no limit is known; `limit`: from where on (0 to 1) sends
    are refused."""

    what: Literal["connections", "descriptors", "memory", "disk", "topics", "message"]
    used: int | None
    most: int | None
    limit: float | None = None

    @property
    def is_bytes(self) -> bool:
        """Tell whether both are sizes."""
        return self.what in ("memory", "disk", "message")

    @property
    def ratio(self) -> float | None:
        """How full it is, 0 to 1; None where that says nothing: the mean size of messages fills nothing up."""
        if self.used is None or not self.most or self.what == "message":
            return None
        return self.used / self.most

    @property
    def is_nearly_full(self) -> bool:
        """Tell whether it is worth a look."""
        return self.ratio is not None and self.ratio >= (self.limit or 1) * NEARLY_FULL


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept, and what it takes. `expires_hours`: as the broker writes it."""

    expires_hours: str
    oldest_ms: int | None
    log_bytes: int | None
    disk_used_ratio: float | None
    keeps_unconsumed: bool | None


@dataclass(frozen=True, slots=True)
class NameService:
    """A name service. `is_registered`: as the broker tells; `lists`: whether it lists the broker, as it says itself.

    None: nobody tells. `answers` None: it is not in the console's settings, so it is not asked.
    """

    address: str
    is_registered: bool | None
    answers: bool | None
    lists: bool | None

    @property
    def is_fine(self) -> bool:
        """Tell whether nothing speaks against it."""
        return False not in (self.is_registered, self.answers, self.lists)


@dataclass(frozen=True, slots=True)
class ClientKind:
    """Clients of one role, language and version, each counted once; `groups` are some of theirs, by name."""

    role: ClientRole
    language: str
    version: int | None
    count: int
    groups: tuple[str, ...]
    groups_more: int

    @property
    def has_pages(self) -> bool:
        """Tell whether its groups have pages: those of producers have none."""
        return self.role is ClientRole.CONSUMER


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker as the mirror knows it; `name` is that of its rows."""

    name: str
    own_name: str
    cluster: str
    address: str
    version: str
    state: str
    reasons: tuple[str, ...]
    started_ms: int | None
    disk_used_ratio: float | None
    #: its slaves, as the name service lists them
    slaves: int
    topics: int = 0
    groups: int = 0
    #: connected consumers; None: the broker does not tell in bulk
    members: int | None = None
    is_stale: bool = False

    @property
    def page(self) -> str:
        """The address of its page."""
        with choosing(choice_of(self.name)):
            return reverse("broker")


@dataclass(frozen=True, slots=True)
class BrokerList:
    """All brokers of a cluster."""

    evidence: Evidence
    now_ms: int
    rows: tuple[BrokerRow, ...]

    @property
    def verdict(self) -> Verdict:
        """What is with the brokers, by the first that is not well."""
        ill = next((row for row in self.rows if row.is_stale or row.state not in ("OK", "UNKNOWN")), None)
        if ill is None:
            words = ngettext("{count} broker is running.", "All {count} brokers are running.", len(self.rows))
            return Verdict("ok", said(words, count=len(self.rows)))
        tone: Literal["broken", "look"] = "look" if ill.state == "DEGRADED" and not ill.is_stale else "broken"
        words = _("{broker} does not respond.") if ill.is_stale else _("{broker} needs attention.")
        return Verdict(tone, said(words, broker=ill.name), "", _("Open broker"), ill.page)


@dataclass(frozen=True, slots=True)
class BrokerPage:
    """The page of one broker. `row` None: the mirror does not know it yet."""

    evidence: Evidence
    now_ms: int
    row: BrokerRow | None
    #: as it told them just now; empty where it did not
    settings: tuple[SettingGroup, ...]
    config_evidence: Evidence
    rooms: tuple[Room, ...]
    retention: Retention
    name_services: tuple[NameService, ...]
    clients: tuple[ClientKind, ...]
    clients_evidence: Evidence
    has_producers: bool
    is_apache: bool
    has_several: bool = False

    @property
    def rows(self) -> tuple[SettingRow, ...]:
        """The settings of all headings, in order."""
        return tuple(row for group in self.settings for row in group.rows)

    @property
    def changed(self) -> int | None:
        """How many settings are not as they are by default; None: the broker does not tell defaults."""
        told = [row for row in self.rows if row.default is not None]
        return sum(row.is_changed for row in told) if told else None

    @property
    def fields(self) -> tuple[SettingRow, ...]:
        """The settings that can be changed."""
        return tuple(row for row in self.rows if row.has_field)

    def as_sent(self, given: Mapping[str, str], faults: Mapping[str, str]) -> BrokerPage:
        """Return the page with what was typed into the form of its settings, and what is wrong with that."""

        def sent(row: SettingRow) -> SettingRow:
            if not row.has_field:
                return row
            text = given.get(row.name, row.text)[:LONGEST_VALUE]
            return replace(
                row, value=given.get(f"was_{row.name}", row.value), text=text, fault=faults.get(row.name, "")
            )

        groups = tuple(replace(group, rows=tuple(map(sent, group.rows))) for group in self.settings)
        return replace(self, settings=groups)

    @property
    def verdict(self) -> Verdict:
        """What is with the broker."""
        if self.config_evidence.stale or self.row is None:
            return not_known()
        return _of_state(self.row) or _of_rooms(self.rooms) or _of_names(self.name_services) or _well(self.changed)


def _of_state(row: BrokerRow) -> Verdict | None:
    if row.state in ("OK", "UNKNOWN"):
        return None
    reason = "; ".join(row.reasons)
    if row.state == "DEGRADED":
        return Verdict("look", said(_("It accepts messages, and something needs attention.")), reason)
    return Verdict("broken", said(_("It accepts no messages.")), reason)


def _of_rooms(rooms: Sequence[Room]) -> Verdict | None:
    full = next((room for room in rooms if room.is_nearly_full), None)
    if full is None or full.ratio is None:
        return None
    words = {
        "connections": _("Its connections are nearly used up: {ratio} of them."),
        "descriptors": _("Its file descriptors are nearly used up: {ratio} of them."),
        "memory": _("It takes nearly all of the machine's memory: {ratio}."),
        "disk": _("Its disk is nearly full: {ratio}."),
    }.get(full.what, "")
    advice = _("Above the limit below, sends are refused.") if full.what == "disk" else ""
    return Verdict("look", said(words, ratio=f"{round(full.ratio * 100)} %"), advice)


def _of_names(name_services: Sequence[NameService]) -> Verdict | None:
    ill = next((each for each in name_services if not each.is_fine), None)
    if ill is None:
        return None
    if ill.answers is False:
        return Verdict("look", said(_("The name service {address} does not respond."), address=ill.address))
    words = said(_("The name service {address} does not list it."), address=ill.address)
    return Verdict("look", words, _("Clients that ask there do not find it."))


def _well(changed: int | None) -> Verdict:
    words = _("It is running, and nothing is near a limit.")
    if not changed:
        return Verdict("ok", said(words))
    advice = ngettext("%(count)s setting is not the default.", "%(count)s settings are not the default.", changed) % {
        "count": changed
    }
    return Verdict("ok", said(words), advice)
