"""A real history in which one promise is broken by hand: the checker has to see it among all that is well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.reliability.history import Event
from tests.reliability.lives import Histories, Life

Spoiled = list[Event]


def spoiled(events: Sequence[Event]) -> dict[str, Spoiled]:
    """Histories by the kind of violation that each has; of what the history holds nothing of there is none."""
    run = Histories.of(events)
    found = {}
    for kind, (fits, spoil) in WAYS.items():
        life = next((life for life in run.lives.values() if fits(life)), None)
        if life is not None:
            found[kind] = spoil(list(events), life)
    return found


def _is_read(life: Life) -> bool:
    return life.kind == "plain" and life.is_accepted and len(life.stored) == 1 and bool(life.hands)


def _is_back(kind: str) -> Callable[[Life], bool]:
    return lambda life: life.kind == kind and life.is_accepted and not life.is_shown


def _is_cancelled(life: Life) -> bool:
    return _is_back("timer")(life) and bool(life.cancelled("ok"))


def _is_rolled_back(life: Life) -> bool:
    return _is_back("half")(life) and bool(life.said_so("rollback"))


def _is_late(life: Life) -> bool:
    return life.kind == "timer" and life.is_accepted and bool(life.stored) and not life.moves


def _is_in_shard(life: Life) -> bool:
    number = life.send.about["number"] if life.kind == "ordered" and life.send is not None else 0
    return number == 1 and life.is_accepted and bool(life.stored)


def _without(*ops: str) -> Callable[[Spoiled, Life], Spoiled]:
    return lambda events, life: [each for each in events if each.id != life.id or each.op not in ops]


def _shown(events: Spoiled, life: Life) -> Spoiled:
    assert life.send is not None
    place = {"topic": life.send.about["topic"], "queue": 0, "offset": 1 << 40, "store_ms": 1 << 50, "intact": True}
    return [*events, replace(life.send, op="stored", outcome="ok", about=place)]


def _again(events: Spoiled, life: Life) -> Spoiled:
    copy = life.stored[0]
    return [*events, replace(copy, about={**copy.about, "offset": 1 << 40})]


def _changed(op: str, **about: object) -> Callable[[Spoiled, Life], Spoiled]:
    return lambda events, life: [
        replace(each, about={**each.about, **about}) if each.id == life.id and each.op == op else each
        for each in events
    ]


def _misplaced(events: Spoiled, life: Life) -> Spoiled:
    mine = life.stored[0].about
    return [
        replace(each, about={**each.about, **{name: mine[name] for name in ("topic", "queue", "offset")}})
        if each.op == "stored" and each.id != life.id and each.about["topic"] == mine["topic"]
        else each
        for each in events
    ]


#: what has to be found: in which life, and what is done to it
WAYS: dict[str, tuple[Callable[[Life], bool], Callable[[Spoiled, Life], Spoiled]]] = {
    "lost": (_is_read, _without("stored", "hand")),
    "not handed out": (_is_read, _without("hand")),
    "unsent": (_is_read, _without("send")),
    "altered": (_is_read, _changed("stored", intact=False)),
    "early": (_is_late, _changed("stored", store_ms=0)),
    "cancelled and shown": (_is_cancelled, _shown),
    "rolled back and shown": (_is_rolled_back, _shown),
    "copied": (_is_read, _again),
    "two in one place": (_is_read, _misplaced),
    "out of order": (_is_in_shard, _changed("stored", offset=1 << 40)),
    "no dead letter": (
        lambda life: life.kind == "poison" and life.is_accepted,
        lambda events, life: [
            each for each in events
            if each.id != life.id or each.op != "stored" or not str(each.about["topic"]).startswith("%DLQ%")
        ],
    ),
    "miscounted": (
        lambda life: life.kind == "far",
        lambda events, life: [
            replace(each, about={"waiting": 0}) if each.op == "count" else each for each in events
        ],
    ),
    "unsound": (_is_read, lambda events, life: [*events, replace(events[-1], op="health", about={"said": "no"})]),
    "ledger": (_is_read, _without("stored", "hand")),
}  # fmt: skip
