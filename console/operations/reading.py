"""Operations as their pages show them: one with its items and audit, and the list of those that the reader sees.

Where names of messages are masked from the reader, they are masked in previews, items, parameters and the audit.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models import QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.http import Http404
from django.utils.translation import gettext as _

from broker.rocketmq.properties import KEYS, SCHEDULE_KEY, SHARDING_KEY, TAGS, UNIQUE_KEY
from console.operations import runner
from console.operations.kind import ItemNow, Kind, Preview, Undo
from console.operations.models import AuditEntry, Operation, OperationItem
from console.operations.registry import KINDS, names_messages, preview_of, scope_of, shown_parameters
from console.security.masking import BODY, Masks, masks
from console.security.topic_scope import TopicScope, current_scope
from console.site.chosen import choice_of, choosing
from console.site.clock import now_ms
from console.site.mirrored import cluster

#: names in a target, and the property that each is
_NAMES = {"scheduleKey": SCHEDULE_KEY, "uniqueKey": UNIQUE_KEY, "handle": UNIQUE_KEY}
#: parts of a message that was written here, and the property that each is
_PARTS = {
    "body": BODY,
    "tag": TAGS,
    "keys": KEYS,
    "schedule_key": SCHEDULE_KEY,
    "sharding_key": SHARDING_KEY,
}


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
    if "body" in shown:
        masked = hide.of(shown.get("topic"))
        shown |= {part: masked[name] for part, name in _PARTS.items() if part in shown and name in masked}
        properties = shown.get("properties", {})
        if masked.keys() & properties.keys():
            shown["properties"] = {name: masked.get(name, text) for name, text in properties.items()}
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


#: items on one page, and operations in the list
ITEMS = 100
LISTED = 50
#: operations that are looked through for one page of somebody who does not see all, and for how long
LOOKED_THROUGH, PATIENCE_S = 5_000, 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationPage:
    """The page of an operation, with some of its items and its audit."""

    row: Operation
    kind: Kind[Any]
    now_ms: int
    preview: Preview
    items: tuple[OperationItem, ...] = ()
    audit: tuple[AuditEntry, ...] = ()
    #: number of the item to go on behind; None: this was the last page
    following: int | None = None
    #: only items with this outcome; "": all
    outcome: str = ""
    #: True: its runner gives no sign of life; somebody can go on with it
    is_lost: bool = False
    #: how far it can be taken back; None: its kind cannot, or it did nothing
    undo: Undo | None = None
    #: by the number of an item the item of another operation that took it back
    back: Mapping[int, OperationItem]
    #: by the number of an item where what it touched is now, after it was taken back if it was
    now: Mapping[int, ItemNow] = field(default_factory=dict)
    #: the same before a broker was asked what became of it: by the names of pages
    pages: Mapping[int, ItemNow] = field(default_factory=dict)
    #: of these what became of it since, where a broker was asked
    became: Mapping[int, ItemNow] = field(default_factory=dict)

    @property
    def became_counts(self) -> Mapping[str, int]:
        """How many of the items that are shown became what."""
        # a template takes `items` of a Counter for a key
        return dict(Counter(each.state or each.text for each in self.became.values()))

    @property
    def is_moving(self) -> bool:
        """Tell whether the page will say something else by and by: while it runs, and as what it sent goes on."""
        return self.row.is_under_way or any(not each.is_final for each in self.now.values())

    @property
    def has_due(self) -> bool:
        """Tell whether any of its items was due at some moment."""
        return any(item.due_ms for item in self.items)

    @property
    def has_now(self) -> bool:
        """Tell whether there is anything to say of where any of its items is now."""
        return bool(self.now or self.back)

    @property
    def has_topic(self) -> bool:
        """Tell whether any of its items is of a topic."""
        return any(item.topic for item in self.items)

    @property
    def made(self) -> ItemNow | None:
        """The page of the one thing that it was about, once it is over, be that at several brokers; None: there is
        none, or there are several."""
        if not self.row.is_over or not self.items or len(self.items) != self.row.total:
            return None
        found = {each.address: each for item in self.items if (each := self.pages.get(item.number)) is not None}
        only = next(iter(found.values()), None)
        return only if only is not None and only.address and len(found) == 1 else None

    @property
    def back_to(self) -> ItemNow | None:
        """What leads back to what it was about, once it is over; None: what it made leads there already."""
        words, address = self.kind.back_to(self.row.parameters)
        made = self.made
        return None if made is not None and made.address == address else ItemNow(text=str(words), address=address)

    @property
    def lag_now(self) -> int | None:
        """How far those are behind now whose lag was told in the preview; None: it is not known."""
        return self.kind.lag_now(self.row.parameters, self.preview)

    @property
    def lag_of(self) -> str:
        """Whose lag that is."""
        return self.kind.lag_of(self.row.parameters, self.preview)

    @property
    def lag_as_of_ms(self) -> int | None:
        """When the mirror read the lag of now, of several brokers the oldest; None: nothing was ever read."""
        return cluster().evidence(polled_by=()).as_of_ms

    @property
    def permission(self) -> str:
        """The permission that this operation needs."""
        return self.kind.permission

    @property
    def typed_word(self) -> str:
        """The word to type to confirm; "": nothing but the number where there are many."""
        return self.kind.typed_word(self.row.parameters)

    @property
    def leave_address(self) -> str:
        """The address to which one goes who does not confirm it."""
        return self.kind.leave_address(self.row.parameters)

    @property
    def percent(self) -> int | None:
        """The part of it that is done, in percent; None before its items were counted."""
        return None if self.row.total is None else 100 * self.row.done // self.row.total if self.row.total else 100


@dataclass(frozen=True, slots=True)
class OperationList:
    """A page of the list of operations."""

    rows: tuple[Operation, ...]
    #: offset of the next page; None: this was the last
    following: int | None
    #: offset of the page before; None: this is the first
    previous: int | None = None
    #: so many were looked through where the look ended before the page was full; 0: it did not
    looked: int = 0


def number_of(text: str) -> uuid.UUID | None:
    """Return the id of an operation; None for a text that is none."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def operation_page(text: str, outcome: str = "", after: int = 0) -> OperationPage | None:
    """Return one operation; None if there is no such, its kind is not known, or the reader does not see it."""
    number = number_of(text)
    row = Operation.objects.filter(pk=number).first() if number else None
    kind = KINDS.get(row.kind) if row is not None else None
    if row is None or kind is None or not is_seen(row, current_scope()):
        return None
    items = row.items.filter(number__gt=after)
    found = list((items.filter(outcome=outcome) if outcome else items)[: ITEMS + 1])
    hide, preview = masks_of(row.kind), preview_of(row)
    # what it names is the broker's
    back = kind.taken_back(row, found)
    with choosing(choice_of(row.broker)):
        now = {item.number: there for item in found[:ITEMS] if (there := kind.item_now(item)) is not None}
        for of, item in back.items():
            if (there := KINDS[kind.undone_by].item_now(item)) is not None:
                now[of] = there
        became = kind.became(row, found[:ITEMS]) if row.is_over else {}
    return OperationPage(
        row=row,
        kind=kind,
        now_ms=now_ms(),
        preview=replace(preview, examples=masked_examples(preview.examples, hide)),
        items=tuple(masked_item(item, hide) for item in found[:ITEMS]),
        audit=tuple(AuditEntry.objects.filter(operation=row.pk).order_by("at", "id")),
        following=found[ITEMS - 1].number if len(found) > ITEMS else None,
        outcome=outcome,
        is_lost=runner.is_lost(row),
        undo=kind.undo_of(row),
        back=back,
        now={**now, **became},
        pages=now,
        became=became,
    )


def live_operation(text: str, after: int = 0) -> OperationPage:
    """Return one operation for the page that is open, with its items from behind `after` on; raises Http404 for one
    that the reader does not see."""
    found = operation_page(text, after=after)
    if found is None:
        raise Http404(_("There is no such operation."))
    return found


def operation_list(offset: int = 0) -> OperationList:
    """Return operations that were confirmed, the newest first."""
    rows, seen = Operation.objects.exclude(state=Operation.State.DRAFT), current_scope()
    if not seen.see_all:
        return _seen_list(rows, offset, seen)
    found = list(rows[offset : offset + LISTED + 1])
    following = offset + LISTED if len(found) > LISTED else None
    return OperationList(tuple(found[:LISTED]), following, max(0, offset - LISTED) if offset else None)


def _seen_list(rows: QuerySet[Operation], offset: int, seen: TopicScope) -> OperationList:
    """Return a page of those that are seen; offsets count all, so that the next page goes on where this one ends."""
    previous, until_s = _before(rows, offset, seen), time.monotonic() + PATIENCE_S
    found: list[Operation] = []
    for looked, row in enumerate(rows[offset:].iterator(200)):
        if looked >= LOOKED_THROUGH or time.monotonic() > until_s:
            return OperationList(tuple(found), offset + looked, previous, looked)
        if is_seen(row, seen):
            if len(found) == LISTED:
                return OperationList(tuple(found), offset + looked, previous)
            found.append(row)
    return OperationList(tuple(found), None, previous)


def _before(rows: QuerySet[Operation], offset: int, seen: TopicScope) -> int | None:
    """Return where the page before `offset` begins, of those that are seen; None: there is none."""
    first, until_s = max(0, offset - LOOKED_THROUGH), time.monotonic() + PATIENCE_S / 3
    hits: list[int] = []
    for place, row in enumerate(reversed(rows[first:offset]), 1):
        if is_seen(row, seen):
            hits.append(offset - place)
        if len(hits) == LISTED or time.monotonic() > until_s:
            return offset - place
    return (hits[-1] if hits else None) if first == 0 else first


def touched(name: str, count: int) -> list[OperationItem]:
    """Return what operations did to things of this name, the newest first: of operations that are seen, and that came
    that far."""
    named = OperationItem.objects.annotate(named=KeyTextTransform("name", "label")).filter(named=name)
    items: Iterable[OperationItem] = named.exclude(outcome="").select_related("operation").order_by("-pk")[: 4 * count]
    seen = current_scope()
    return [item for item in items if is_seen(item.operation, seen)][:count]


def is_seen(row: Operation, seen: TopicScope) -> bool:
    """Return whether all that the operation touches is seen."""
    return scope_of(row).is_seen(seen)
