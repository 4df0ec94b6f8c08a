"""Operations over several brokers at once: of each thing it is said at which broker it lies, and it is done there.

    {"targets": [{"position": 4711, "broker": "broker-a"}, {"position": 96, "broker": "broker-b"}]}
    {"filter": {"topic": "orders"}, "brokers": ["broker-a", "broker-b"]}

Without that an operation is of the broker that is chosen, or of the only one. A broker that did not answer when it was
previewed is named, and nothing is done there; what becomes of one is no matter of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.utils.translation import gettext

from broker.client import Admin, ClientError
from console.operations.errors import InvalidParameter, NotPossible, TooMany
from console.operations.kind import LIMIT, ItemResult, LagPreview, Target
from console.operations.selection import EXAMPLES, TOPICS, admin_of_one
from console.site import broker as site_broker
from console.site.broker import Told, asked_of, at, tell_each
from console.site.chosen import chosen
from console.site.mirrored import cluster

Answer = TypeVar("Answer")

#: the field that says at which broker a target lies, and the one with the brokers at which a filter looks
OF, AMONG = "broker", "brokers"
#: the parameters of an operation as each broker has them; "" is the one that is chosen, or the only one
Shares = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersPreview(LagPreview):
    """A preview of what may be done at several brokers."""

    #: [broker, how many there (None: it did not tell), why], where it is done at several
    brokers: list[list[Any]] = field(default_factory=list)

    @property
    def has_several(self) -> bool:
        """Tell whether an example has to say whose it is."""
        return bool(self.brokers)


def among() -> dict[str, list[str]]:
    """Return the field that says of a filter that it is of all brokers of this page; nothing where there is one."""
    names = asked_of(cluster())
    return {} if names == [""] else {AMONG: names}


def checked_brokers(parameters: Mapping[str, Any], checked: Mapping[str, Any]) -> dict[str, Any]:
    """Return checked parameters with the brokers of their filter; raises InvalidParameter for names that are none, and
    where it is said of some targets only."""
    given = parameters.get(AMONG)
    if given is not None and (not isinstance(given, list) or not given or "filter" not in checked):
        raise InvalidParameter(AMONG, "brokers are the names of those at which a filter looks.")
    said = list(given or ()) + [target.get(OF, "") for target in checked.get("targets", ())]
    if not any(said):
        return dict(checked)
    names = cluster().names
    if not all(said):
        raise InvalidParameter("targets", f"Give the broker of each: {', '.join(names)}.")
    unknown = next((name for name in said if name not in names), None)
    if unknown is not None:
        raise InvalidParameter(
            "targets", f"There is no broker {str(unknown)[:60]} here; there are: {', '.join(names)}."
        )
    return {**checked, AMONG: sorted(set(given))} if given else dict(checked)


def shares_of(parameters: Mapping[str, Any]) -> Shares:
    """Return the parameters by broker, without the fields that say which."""
    if AMONG in parameters:
        share = {name: value for name, value in parameters.items() if name != AMONG}
        return dict.fromkeys(parameters[AMONG], share)
    targets: dict[str, list[Mapping[str, Any]]] = {}
    for target in parameters.get("targets", ()):
        targets.setdefault(target.get(OF, ""), []).append(_without_broker(target))
    if not any(targets):
        return {"": parameters}
    return {name: {**parameters, "targets": own} for name, own in targets.items()}


def look_at_each(shares: Shares, look: Callable[[Admin, Mapping[str, Any]], Answer]) -> list[Told[Answer]]:
    """Return what is found of each share at its broker; asked beside each other, which leaves the database alone.

    Raises ClientError where none of them answers.
    """
    if "" in shares:
        return [Told("", look(admin_of_one(), shares[""]))]
    return tell_each(lambda admin: look(admin, shares[chosen().name]), list(shares))


def previewed(shares: Shares, shown: BrokersPreview) -> Shares:
    """Return the shares of those brokers that answered when it was previewed."""
    silent = {name for name, count, _why in shown.brokers if count is None}
    return {name: share for name, share in shares.items() if name not in silent}


def find_at_each(
    shares: Shares, look: Callable[[Admin, Mapping[str, Any]], Answer], targets: Callable[[Answer, Any], list[Target]]
) -> list[Target]:
    """Return the targets of all brokers, each with its own; raises TooMany, and NotPossible where one is silent now."""
    found: list[Target] = []
    for each in look_at_each(shares, look):
        if each.answer is None:
            text = gettext("%(broker)s does not respond now: nothing was changed. Continue when it is back.")
            raise NotPossible(text % {"broker": each.broker})
        own = targets(each.answer, shares[each.broker])
        found += [_of(target, each.broker) for target in own] if each.broker else own
    if len(found) > LIMIT:
        raise TooMany(LIMIT)
    return found


def act_at_each(
    targets: Sequence[Mapping[str, Any]], act: Callable[[Admin, Sequence[Mapping[str, Any]]], list[ItemResult]]
) -> list[ItemResult]:
    """Do it to the targets of each broker, in their order; of a broker that does not answer nothing is known.

    Raises ClientError when none of them answers.
    """
    places: dict[str, list[int]] = {}
    for place, target in enumerate(targets):
        places.setdefault(target.get(OF, ""), []).append(place)
    results: dict[int, ItemResult] = {}
    errors: list[ClientError] = []
    for name, own in places.items():
        try:
            with at(name):
                admin = site_broker.admin() if name else admin_of_one()
                done = act(admin, [_without_broker(targets[place]) for place in own])
        except ClientError as error:
            errors.append(error)
            done = [ItemResult("unknown", {"error": str(error)}) for _place in own]
        results |= dict(zip(own, done, strict=True))
    if errors and len(errors) == len(places):
        raise errors[0]
    return [results[place] for place in range(len(targets))]


def counted(shares: Shares, parts: Mapping[str, BrokersPreview], told: Sequence[Told[Any]]) -> list[list[Any]]:
    """Return for a preview how many are touched at each broker, and why it is not known of some."""
    return [
        [each.broker, parts[each.broker].count if each.broker in parts else None, str(each.error or "")]
        for each in told
        if each.broker in shares
    ]


def totals(parts: Mapping[str, BrokersPreview]) -> dict[str, Any]:
    """Return the fields of a preview of several brokers that every kind counts; raises TooMany."""
    previews = list(parts.values())
    count = sum(each.count or 0 for each in previews)
    if count > LIMIT:
        raise TooMany(LIMIT)
    topics: Counter[str] = Counter()
    for each in previews:
        topics.update(dict(each.topics))
    examples = [{**row, OF: name} for name, each in parts.items() for row in each.examples]
    lags = [each for each in previews if each.lag_after is not None]
    # one that never catches up is slower than any
    slowest = max(lags, key=lambda each: (each.is_outrun, each.catch_up_ms or 0), default=None)
    is_whole = len(lags) == len(previews)
    return {
        "at_ms": min(each.at_ms for each in previews),
        "count": count,
        "examples": examples[:EXAMPLES],
        "topics": [[topic, number] for topic, number in topics.most_common(TOPICS)],
        "missing": list(dict.fromkeys(code for each in previews for code in each.missing)),
        "lag_before": sum(each.lag_before or 0 for each in lags) if lags and is_whole else None,
        "lag_after": sum(each.lag_after or 0 for each in lags) if lags and is_whole else None,
        "consumed_per_s": slowest.consumed_per_s if slowest else None,
        "arriving_per_s": slowest.arriving_per_s if slowest else None,
        "catch_up_ms": slowest.catch_up_ms if slowest else None,
        "is_outrun": bool(slowest and slowest.is_outrun),
    }


def _of(target: Target, broker: str) -> Target:
    return Target({**target.target, OF: broker}, {**target.label, OF: broker})


def _without_broker(target: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in target.items() if name != OF}
