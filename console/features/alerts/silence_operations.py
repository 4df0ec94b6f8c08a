"""Silences: nobody is told of some alerts for a while.

{"rule": 5, "subject": "*", "until_ms": 1795247527000}      silence; rule None: of all
{"silence": 7}                                              end a silence
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from django.utils import timezone

from console.features.alerts import rule_fields
from console.features.alerts.models import Alert, Silence
from console.features.alerts.operations import OfAlerts, number_in, rule_of
from console.operations.actor import SILENCE_ALERTS
from console.operations.errors import InvalidParameter, NotPossible
from console.operations.kind import ItemResult, Kind
from console.operations.preview import Preview
from console.site.clock import real_now_ms as now_ms

LONGEST_SILENCE_MS = 366 * 86_400_000


class SilenceAlerts(OfAlerts):
    """Nobody is told for a while."""

    name, permission = "alerts.silence", SILENCE_ALERTS

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Which rule (None: all), which subjects, until when. `what` is the rule's, by which its subjects are known."""
        made: dict[str, Any] = {"rule": None, "what": ""}
        if parameters.get("rule") is not None:
            row = rule_of({"rule": number_in(parameters, "rule")})
            made = {"rule": row.pk, "what": row.what}
        until = parameters.get("until_ms")
        if not isinstance(until, int) or isinstance(until, bool) or not 0 < until - now_ms() <= LONGEST_SILENCE_MS:
            raise InvalidParameter("until", "A silence ends at a moment ahead, within a year.")
        subject = rule_fields.checked({"subject": parameters.get("subject", "*")})["subject"]
        return {**made, "subject": subject, "until_ms": until}

    def preview(self, parameters: Mapping[str, Any]) -> Preview:
        """Which of the raised alerts nobody would be told of."""
        changes = [["subject", None, parameters["subject"]], ["until_ms", None, parameters["until_ms"]]]
        return _quiet(parameters["rule"], parameters["subject"], changes)

    def called(self, parameters: Mapping[str, Any]) -> str:
        """Its subjects."""
        return str(parameters["subject"])

    def done(self, who: str, parameters: Mapping[str, Any], reason: str) -> ItemResult:
        """One row."""
        rule = rule_of(parameters) if parameters["rule"] is not None else None
        until = datetime.fromtimestamp(parameters["until_ms"] / 1000, UTC)
        row = Silence.objects.create(
            rule=rule, subject=parameters["subject"], until=until, reason=reason, actor=who[:150]
        )
        return ItemResult("silenced", {"silence": row.pk})


class EndSilence(OfAlerts):
    """It is told again from now on; the silence itself is kept."""

    name, permission = "alerts.end_silence", SILENCE_ALERTS

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Which."""
        return {"silence": number_in(parameters, "silence")}

    def preview(self, parameters: Mapping[str, Any]) -> Preview:
        """Until when it would have been."""
        row = _silence_of(parameters)
        changes: list[list[Any]] = [
            ["subject", row.subject, row.subject],
            ["until_ms", round(row.until.timestamp() * 1000), now_ms()],
        ]
        return _quiet(row.rule_id, row.subject, changes)

    def called(self, parameters: Mapping[str, Any]) -> str:
        """Its subjects."""
        return _silence_of(parameters).subject

    def done(self, who: str, parameters: Mapping[str, Any], reason: str) -> ItemResult:
        """It ends now."""
        _silence_of(parameters)
        Silence.objects.filter(pk=parameters["silence"]).update(until=timezone.now())
        return ItemResult("silence_ended")


KINDS: tuple[Kind, ...] = (SilenceAlerts(), EndSilence())


def _quiet(rule: int | None, subject: str, changes: list[list[Any]]) -> Preview:
    """The raised alerts that a silence keeps quiet."""
    raised = Alert.objects.exclude(state=Alert.State.ENDED)
    hits = [row for row in (raised if rule is None else raised.filter(rule=rule)) if fnmatchcase(row.subject, subject)]
    watched = [[row.subject, row.value] for row in hits[:5]]
    return Preview(at_ms=now_ms(), count=1, changes=changes, watched=watched, watched_count=len(hits))


def _silence_of(parameters: Mapping[str, Any]) -> Silence:
    row = Silence.objects.filter(pk=parameters["silence"], until__gt=timezone.now()).first()
    if row is None:
        raise NotPossible(f"There is no silence {parameters['silence']}, or it is over.")
    return row
