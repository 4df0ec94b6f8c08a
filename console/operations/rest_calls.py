"""An operation as the REST interface is asked for it: method, address behind /api/v1/, body; None where it has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

_REASON = {"reason": "..."}
_SETTINGS = frozenset(f"{family}.{verb}" for family in ("topics", "groups") for verb in ("create", "change", "delete"))
#: names of a filter's fields here and there
_TIMERS = {"topic": "topic", "key": "key", "from_ms": "due_from", "to_ms": "due_before"}
_TRANSACTIONS = {"state": "state", "topic": "topic", "group": "producer_group", "before_ms": "stored_before"}
_LETTERS = {"topic": "topic", "key": "key", "from_ms": "died_from", "to_ms": "died_before"}
#: names by which one of them is chosen
_TARGETS = {
    "position": "position", "offset": "offset", "queueId": "queue", "topic": "topic", "scheduleKey": "schedule_key",
    "uniqueKey": "message_id", "handle": "id", "messageId": "id", "dueMs": "deliver_at",
}  # fmt: skip
_VALUES = {"from_ms": "due_from", "to_ms": "due_before"}
_SILENCE = {"subject": "subject", "until_ms": "until"}
_MOVED = {"due_ms": "deliver_at", "shift_ms": "shift_ms"}

Call = tuple[str, str, dict[str, Any] | None]


def rest_call(kind: str, parameters: Mapping[str, Any]) -> Call | None:
    """The call that does the same."""
    family, _, act = kind.partition(".")
    act = act.replace("_", "-")
    if kind == "timers.take_back":
        items = {"items": parameters["items"]} if "items" in parameters else {}
        return "POST", f"operations/{parameters['operation']}:take-back", {**items, **_REASON}
    if family in ("timers", "transactions"):
        chosen = _chosen(family, parameters, _TIMERS if family == "timers" else _TRANSACTIONS)
        return "POST", f"{family}:{act}", {**chosen, **_renamed(parameters, _MOVED), **_REASON}
    if family == "dead_letters":
        path = f"groups/{quote(parameters['group'], safe='')}/dead-letters:{act}"
        return "POST", path, {**_chosen("letters", parameters, _LETTERS), **_REASON}
    if kind == "messages.resend":
        group = {"group": parameters["group"]} if parameters["group"] else {}
        return "POST", f"messages/{parameters['message_id']}:resend", {**group, **_REASON}
    if kind == "groups.reset_offsets":
        return _of_offsets(parameters)
    if family == "alerts":
        return _of_alerts(act, parameters)
    if family == "redisson":
        return _of_queue(act, parameters)
    return _of_settings(family, act, parameters) if kind in _SETTINGS else None


def _chosen(named: str, parameters: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """All that match, or those that were chosen."""
    if "targets" in parameters:
        return {named: [_renamed(target, _TARGETS) for target in parameters["targets"]]}
    if "filter" in parameters:
        return {"filter": _renamed(parameters["filter"], names), **_all(parameters)}
    return {}


def _of_offsets(parameters: Mapping[str, Any]) -> Call:
    """A group set back or forward."""
    topic, group = (quote(parameters[name], safe="") for name in ("topic", "group"))
    body = _renamed(parameters, {"to": "to", "at_ms": "at", "offsets": "offsets"})
    return "POST", f"topics/{topic}/groups/{group}:reset-offsets", {**body, **_REASON}


def _of_queue(act: str, parameters: Mapping[str, Any]) -> Call:
    """One of Redisson's delayed queues."""
    path = f"redisson/queues/{quote(parameters['queue'], safe='')}"
    if act == "offer":
        return "POST", f"{path}/values", {name: parameters[name] for name in ("value", "codec", "delay_ms")}
    body: dict[str, Any] = {
        name: parameters[name] for name in ("handles", "to", "topic", "packing") if name in parameters
    }
    if "filter" in parameters:
        bounds = _renamed(parameters["filter"], _VALUES)
        body |= {**({"range": bounds} if bounds else {}), **_all(parameters)}
    return "POST", f"{path}:{act}", {**body, **_renamed(parameters, _MOVED), **_REASON}


def _of_settings(family: str, act: str, parameters: Mapping[str, Any]) -> Call:
    """A topic or group made, changed or deleted."""
    name = quote(parameters["name"], safe="")
    if act == "delete":
        pending = f"&pending={parameters['pending']}" if parameters.get("pending") else ""
        return "DELETE", f"{family}/{name}?reason=...{pending}", None
    body = {part: parameters[part] for part in ("settings", "expected") if part in parameters}
    if act == "create":
        return "POST", family, {"name": parameters["name"], **body, **_REASON}
    return "PATCH", f"{family}/{name}/settings", {**body, **_REASON}


def _of_alerts(act: str, parameters: Mapping[str, Any]) -> Call:
    """A rule of alerts, or a silence."""
    if act == "silence":
        rule = {} if parameters["rule"] is None else {"rule": parameters["rule"]}
        return "POST", "alert-silences", {**rule, **_renamed(parameters, _SILENCE), **_REASON}
    if act == "end-silence":
        return "DELETE", f"alert-silences/{parameters['silence']}?reason=...", None
    if act == "delete":
        return "DELETE", f"alert-rules/{parameters['rule']}?reason=...", None
    body = {part: _listed(parameters[part]) for part in ("settings", "expected") if part in parameters}
    if act == "create":
        return "POST", "alert-rules", {**body, **_REASON}
    return "PATCH", f"alert-rules/{parameters['rule']}", {**body, **_REASON}


def _listed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Addresses one by one."""
    return {name: value.split() if name == "emails" else value for name, value in settings.items()}


def _renamed(given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names[name]: given[name] for name in names if given.get(name) not in (None, "")}


def _all(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"all": True} if parameters.get("is_all") else {}
