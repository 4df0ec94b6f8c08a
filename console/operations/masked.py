"""Operations as those may see them from whom names of messages are masked: previews, items, parameters, the audit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from broker.rocketmq.properties import SCHEDULE_KEY, UNIQUE_KEY
from console.operations.models import OperationItem
from console.operations.registry import names_messages, shown_parameters
from console.security.masking import Masks, masks

#: names in a target, and the property that each is
_NAMES = {"scheduleKey": SCHEDULE_KEY, "uniqueKey": UNIQUE_KEY, "handle": UNIQUE_KEY}


def masks_of(kind: str, rules: Masks | None = None) -> Masks:
    """Return the rules for what operations of this kind touch; none where that has no names of messages."""
    return (masks() if rules is None else rules) if names_messages(kind) else Masks()


def masked_examples(examples: Iterable[Mapping[str, Any]], hide: Masks) -> list[dict[str, Any]]:
    """Return the examples of a preview: where they are messages, they are named by a key or a value."""
    return [
        dict(each) if (name := hide.name(each.get("topic"))) is None or "name" not in each else {**each, "name": name}
        for each in examples
    ]


def masked_item(item: OperationItem, hide: Masks) -> OperationItem:
    """Return the item with its name masked; it must not be saved."""
    if (name := hide.name(item.topic)) is not None:
        item.label = {**item.label, "name": name}
    return item


def masked_parameters(kind: str, parameters: Mapping[str, Any], rules: Masks | None = None) -> dict[str, Any]:
    """Return the parameters without secrets, and with masked keys where they name messages by keys.

    `rules` are the mask rules, if they were read already.
    """
    hide, shown = masks_of(kind, rules), shown_parameters(kind, parameters)
    if not hide.rules:
        return shown
    if isinstance(shown.get("targets"), list):
        shown["targets"] = [_target(target, hide) for target in shown["targets"]]
    chosen = shown.get("filter")
    if isinstance(chosen, Mapping) and chosen.get("key"):
        shown["filter"] = {**chosen, "key": hide.name(chosen.get("topic") or None) or chosen["key"]}
    return shown


def masked_result(kind: str, result: Mapping[str, Any], rules: Masks | None = None) -> dict[str, Any]:
    """Return what an entry of the audit keeps; where that has parameters, as `masked_parameters` does."""
    if not isinstance(result.get("parameters"), Mapping):
        return dict(result)
    return {**result, "parameters": masked_parameters(kind, result["parameters"], rules)}


def _target(target: Any, hide: Masks) -> Any:
    if not isinstance(target, Mapping):
        return target
    masked = hide.of(target.get("topic"))
    return {name: masked.get(_NAMES.get(name, ""), given) for name, given in target.items()}
