"""Parameters of operations as others may see them: the names of what they are about may be masked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.rocketmq.properties import SCHEDULE_KEY, UNIQUE_KEY
from console.features.alerts.webhooks import without_path
from console.operations.reading import masks_of
from console.security.masking import Masks

#: names in a target, and the property that each is
_NAMES = {"scheduleKey": SCHEDULE_KEY, "uniqueKey": UNIQUE_KEY, "handle": UNIQUE_KEY}


def masked_parameters(kind: str, parameters: Mapping[str, Any], rules: Masks | None = None) -> dict[str, Any]:
    """The same, but for keys by which it names messages that are masked; `rules`: those that were read already."""
    hide, shown = masks_of(kind, rules), _without_webhooks(kind, parameters)
    if not hide.rules:
        return shown
    if isinstance(shown.get("targets"), list):
        shown["targets"] = [_target(target, hide) for target in shown["targets"]]
    chosen = shown.get("filter")
    if isinstance(chosen, Mapping) and chosen.get("key"):
        shown["filter"] = {**chosen, "key": hide.name(chosen.get("topic") or None) or chosen["key"]}
    return shown


def _without_webhooks(kind: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """An address of a webhook is more than its origin: who has it may be able to post there."""
    shown = dict(parameters)
    for part in ("settings", "expected"):
        given = shown.get(part)
        if kind.startswith("alerts.") and isinstance(given, Mapping) and isinstance(given.get("webhook"), str):
            shown[part] = {**given, "webhook": without_path(given["webhook"])}
    return shown


def _target(target: Any, hide: Masks) -> Any:
    if not isinstance(target, Mapping):
        return target
    masked = hide.of(target.get("topic"))
    return {name: masked.get(_NAMES.get(name, ""), given) for name, given in target.items()}


def masked_result(kind: str, result: Mapping[str, Any], rules: Masks | None = None) -> dict[str, Any]:
    """What an entry of the audit keeps, which may be parameters."""
    if not isinstance(result.get("parameters"), Mapping):
        return dict(result)
    return {**result, "parameters": masked_parameters(kind, result["parameters"], rules)}
