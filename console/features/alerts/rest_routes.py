"""The part of the table of REST operations that is about alert rules and silences."""

from __future__ import annotations

from console.security.tokens import SETTINGS

from ...rest.choice_schemas import OperationPreview
from ...rest.needs import EVERYWHERE, Need
from ...rest.route import Operation
from ..timers.rest_bulk_schemas import OperationShown
from . import rest as alerts_rest
from .rest_schemas import (
    AlertRuleChange,
    AlertRuleRows,
    AlertRuleShown,
    NewAlertRule,
    NewSilence,
    SilenceRows,
)

_RULES, _SILENCES = "/alert-rules", "/alert-silences"
_RULE, _SILENCE = _RULES + "/{rule}", _SILENCES + "/{silence}"
_REASON = (("reason", "Kept in the audit."), ("preview", "true: say what would come of it, and do nothing."))
_BEGUN = (202, "It is done, or waits for a second person; Location says where to look.", OperationShown)
_PREVIEW = (200, "Asked for a preview: what it would say now.", OperationPreview)
#: rules watch names of every beginning
_NEEDS = (Need((SETTINGS,), EVERYWHERE),)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET", _RULES, "List alert rules", SETTINGS, alerts_rest.rules, None, ((200, "Rules.", AlertRuleRows),),
        needs=_NEEDS,
    ),
    Operation(
        "POST", _RULES, "Make an alert rule", SETTINGS, alerts_rest.make, NewAlertRule, (_BEGUN, _PREVIEW), needs=_NEEDS
    ),
    Operation(
        "GET", _RULE, "Look at an alert rule", SETTINGS, alerts_rest.rule, None, ((200, "The rule.", AlertRuleShown),),
        needs=_NEEDS,
    ),
    Operation(
        "PATCH", _RULE, "Change an alert rule, or switch it on or off", SETTINGS, alerts_rest.change, AlertRuleChange,
        (_BEGUN, (200, "It is so already; asked for a preview: OperationPreview.", AlertRuleShown)), needs=_NEEDS,
    ),
    Operation(
        "DELETE", _RULE, "Delete an alert rule with what it raised", SETTINGS, alerts_rest.delete, None,
        (_BEGUN, _PREVIEW), _REASON, needs=_NEEDS,
    ),
    Operation(
        "GET", _SILENCES, "List silences that hold", SETTINGS, alerts_rest.silences, None,
        ((200, "Silences.", SilenceRows),), needs=_NEEDS,
    ),
    Operation(
        "POST", _SILENCES, "Silence alerts", SETTINGS, alerts_rest.silence, NewSilence, (_BEGUN, _PREVIEW), needs=_NEEDS
    ),
    Operation(
        "DELETE", _SILENCE, "End a silence", SETTINGS, alerts_rest.end_silence, None, (_BEGUN, _PREVIEW), _REASON,
        needs=_NEEDS,
    ),
)  # fmt: skip
