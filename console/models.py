"""Rows that the console itself owns (the broker's tables are in broker.mirror.models)."""

from __future__ import annotations

from console.features.alerts.models import Alert, AlertRule, Delivery, Silence
from console.features.checkback.models import CheckAddress
from console.features.dashboards.models import DashboardPoint, DashboardRun
from console.features.dead_letters.models import LetterMark
from console.features.messages.models import TopicDescriptor
from console.features.overview.finding_marks import FindingMark
from console.kept_figures import FigureSubject, HourFigures, MinuteFigures
from console.operations.models import AuditEnd, AuditEntry, Operation, OperationItem, ReadAdministration
from console.past import Snapshot
from console.security.models import (
    ApiToken,
    Identity,
    MaskRule,
    PasswordDue,
    RecoveryCode,
    SecondFactor,
    TopicPermission,
)
from console.ui.saved_views import SavedView

__all__ = [
    "Alert",
    "AlertRule",
    "ApiToken",
    "AuditEnd",
    "AuditEntry",
    "CheckAddress",
    "DashboardPoint",
    "DashboardRun",
    "Delivery",
    "FigureSubject",
    "FindingMark",
    "HourFigures",
    "Identity",
    "LetterMark",
    "MaskRule",
    "MinuteFigures",
    "Operation",
    "OperationItem",
    "PasswordDue",
    "ReadAdministration",
    "RecoveryCode",
    "SavedView",
    "SecondFactor",
    "Silence",
    "Snapshot",
    "TopicDescriptor",
    "TopicPermission",
]  # fmt: skip
