"""A kind of operation: everything that is particular to it, in one class.

To add an operation:

1. In `console/features/<feature>/operations.py` (or `<anything>_operations.py` beside it) write a class, with a preview
   class of its own if it counts more than all kinds do:

       @register
       class PauseGroup(Kind[Preview]):
           name, permission = "groups.pause", CHANGE_SETTINGS
           title, verb, effect = _("Pause a group"), _("Pause it"), _("It gets nothing until it is resumed.")
           outcomes = {"paused": Outcome(_("paused"))}
           preview_template = "groups/pause_preview.html"
           ...

   What is abstract here says what is needed. Words that people read are lazy translations.
2. If no template that there is fits, write the one that draws its preview. It gets `kind`, `row` (the operation), `p`
   (the preview) and `data` (`console.operations.reading.OperationPage`).
3. Translate its words in `django.po`.

The registry finds it; pages, audit, palette, REST bridge and `manage.py operate` know it from then on. A button that
begins it is a form to `{% url 'operation_draft' %}` with its name as `kind`; `from_form` reads the rest of the form.

What it would touch is its preview, as it is shown and stored: numbers and codes only; the words are the page's. Each
kind has its own class of preview with the figures that it counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

from django.db import transaction
from django.http import QueryDict
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from console.operations.actor import UNBOUNDED, Scope
from console.operations.errors import NotPossible, OperationError
from console.operations.models import Operation, OperationItem
from console.security.topic_scope import VisibleTopics


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The counts before an operation. A preview is stored with its operation, and REST answers with its fields."""

    #: figures besides `count` that say how much is touched: they count for the second person's limit
    weights: ClassVar[tuple[str, ...]] = ()

    #: the broker's clock when it was counted; what is stored later is not touched
    at_ms: int = 0
    #: how many would be touched; None: not known, something has to be said first
    count: int | None = None
    #: a few of them, as a table shows them
    examples: list[dict[str, Any]] = field(default_factory=list)
    #: [topic, count], the most first
    topics: list[list[Any]] = field(default_factory=list)
    #: codes of what the broker could not tell
    missing: list[str] = field(default_factory=list)

    @property
    def touched(self) -> int:
        """The largest of the figures that say how much is touched."""
        return max(self.count or 0, *(getattr(self, name) or 0 for name in self.weights), 0)

    def as_row(self) -> dict[str, Any]:
        """Return the fields by name, for `Operation.preview` and for REST."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """Return what `Operation.preview` keeps; fields that this kind does not have (any more) are left out."""
        return cls(**{each.name: row[each.name] for each in fields(cls) if each.name in row})


@dataclass(frozen=True, slots=True, kw_only=True)
class LagPreview(Preview):
    """A preview of what gives messages to consumer groups: how far they would be behind, and for how long."""

    #: messages that the groups are behind, now and at once afterwards; None: not known
    lag_before: int | None = None
    lag_after: int | None = None
    #: what the group (of several the slowest) took of late, what arrived for it, and how long it would need for what it
    #: is behind then
    consumed_per_s: float | None = None
    arriving_per_s: float | None = None
    catch_up_ms: int | None = None
    #: it never catches up, as more arrives than it takes
    is_outrun: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesPreview(Preview):
    """A preview of settings that are changed."""

    #: [name, value now (None: it is new), value afterwards]
    changes: list[list[Any]] = field(default_factory=list)

    @staticmethod
    def between(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[list[Any]]:
        """Return the changes from one state to another, in the order of the latter."""
        return [[name, before.get(name), value] for name, value in after.items() if before.get(name) != value]


#: most targets of one operation
LIMIT = 10_000
#: targets of one request to the broker
BATCH = 500
#: more than so many are confirmed by typing their number
TYPED_ABOVE = 100

PreviewOf = TypeVar("PreviewOf", bound=Preview)
Words = str | Promise
#: method, address behind /api/v1/, and body (None: it has none) of a REST call
Call = tuple[str, str, dict[str, Any] | None]
#: stands in a call that is shown, where its reader says why
REASON = {"reason": "..."}


@dataclass(frozen=True, slots=True)
class Target:
    """A thing to touch: `target` is what the broker is given, `label` what people see."""

    target: Mapping[str, Any]
    label: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ItemResult:
    """The result for one target; `outcome` is one of its kind's `outcomes`, `result` what the broker said."""

    outcome: str
    result: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The name of an outcome, and the mark beside it: done, nothing to do, or something to look at; `is_unsure`:
    something may have been changed all the same."""

    words: Words
    mark: Literal["ok", "idle", "look"] = "ok"
    is_unsure: bool = False


#: outcomes that any kind may have; the empty one is of an item that was not touched
COMMON_OUTCOMES: Mapping[str, Outcome] = {
    "": Outcome(_("not processed"), "idle"),
    "gone": Outcome(_("no longer exists"), "idle"),
    "refused": Outcome(_("refused"), "look"),
    "unknown": Outcome(_("unknown"), "look", is_unsure=True),
}


@dataclass(frozen=True, slots=True)
class Form:
    """A form as it was sent, to be shown again; `context` is what its template needs besides `given` and `faults`."""

    template: str
    context: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ItemNow:
    """The place of a touched thing now: a moment (epoch ms) or a text, with the `address` of its page if any, and a
    mark where it is something to look at.

    With a `state`, what is with it now, the moment is when it is or was due and the text names the page.
    """

    ms: int | None = None
    text: str = ""
    address: str = ""
    state: str = ""
    mark: str = ""
    #: False: it will become something else
    is_final: bool = True


@dataclass(frozen=True, slots=True)
class Undo:
    """The extent to which an operation can be taken back now.

    Where its items are taken back one by one: `count` it touched; `back` of them were taken back, and of the others
    `ahead` still can be, the last of all until `last_ms`. `done` are the operations that took them back, newest first.
    """

    is_possible: bool
    count: int = 0
    back: int = 0
    ahead: int = 0
    last_ms: int | None = None
    done: tuple[Operation, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """A command that a text in the palette may ask for; `text` asks for just this again, `label` says it in words."""

    text: str
    label: str
    #: name of the kind, its permission, and the parameters: asked for only when the command is chosen
    kind: str
    permission: str
    parameters: Callable[[], dict[str, Any]]
    reason: str = ""
    #: a number that was named: it confirms that many if the preview counts the same
    count: str = ""
    #: names of the brokers that have what it is about: asked for only where there are several; None: it is of all
    brokers: Callable[[], Collection[str]] | None = None
    #: the page whose form asks for the rest; "": it can be previewed as it is
    address: str = ""


class Act:
    """Something that the audit keeps under its `name`; `title` is what it is called on pages."""

    name: ClassVar[str]
    title: ClassVar[Words] = ""

    def audited(self, result: Mapping[str, Any]) -> str:
        """Return what came of it in words, where the audit's entry says more than all entries do; else ""."""
        return ""


class Kind(Act, ABC, Generic[PreviewOf]):
    """A kind of operation. `name` is a stable code ("timers.cancel"), `permission` Django's."""

    permission: ClassVar[str]
    #: whether what it does takes something away for good: the password is asked for again before it
    destroys: ClassVar[bool] = False
    #: whether its button is that of what destroys, where that is not the same; None: it is
    is_red: ClassVar[bool | None] = None
    #: the word on the button that confirms it, and what it does and leaves
    verb: ClassVar[Words] = ""
    effect: ClassVar[Words] = ""
    #: what its outcomes are called, besides COMMON_OUTCOMES
    outcomes: ClassVar[Mapping[str, Outcome]] = {}
    #: where it belongs in the rail, and the page from which it is begun: names of addresses
    page: ClassVar[str]
    list_page: ClassVar[str] = ""
    #: what leads back to what it was about, once it is over
    leave_words: ClassVar[Words] = _("Back to the list")
    #: True: it cannot be taken back
    is_final: ClassVar[bool] = False
    #: True: done twice it is as done once, so that an item of which nothing is known can be gone on with
    is_repeatable: ClassVar[bool] = False
    #: True: without a moment that somebody types it cannot be previewed
    needs_moment: ClassVar[bool] = False
    #: True: it touches messages or values, so their names may be masked
    names_messages: ClassVar[bool] = False

    #: the class of its previews, the template that draws one, and whether that has figures above its tables
    preview_type: ClassVar[type[Preview]] = Preview
    preview_template: ClassVar[str]
    has_figures: ClassVar[bool] = True
    #: template of the way to one more of the kind, beside the way to what was made
    again_template: ClassVar[str] = ""
    #: template of what has to be chosen before it is confirmed, and the names of the fields in it
    choice_template: ClassVar[str] = ""
    choices: ClassVar[tuple[str, ...]] = ()

    #: name of the kind that takes it back, and the word on the button; "": nothing does
    undone_by: ClassVar[str] = ""
    undo_verb: ClassVar[Words] = _("Undo…")
    #: outcomes of items that are taken back one by one
    undone_outcomes: ClassVar[tuple[str, ...]] = ()

    #: verbs of the palette that begin it, in all languages, whichever the reader has
    verbs: ClassVar[tuple[str, ...]] = ()
    #: the page on which it is begun, for who names it in the palette (the name of its address), and the place there
    begun_on: ClassVar[str] = ""
    begun_at: ClassVar[str] = ""

    # from a form or a call to its parameters

    @abstractmethod
    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters in their one form; raises InvalidParameter."""

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the parameters that a form of the console asks for; raises InvalidParameter."""
        return {}

    def form_again(self, given: QueryDict, faults: Mapping[str, str]) -> Form | None:
        """Return the form as it was sent, with what is wrong by field; None: nothing was typed into it."""
        return None

    def commands(self, verb: str, rest: str) -> Iterator[Command]:
        """Yield what one of its verbs asks for with the `rest` of the text, whoever may do it."""
        yield from ()

    def offered(self) -> Iterator[Command]:
        """Yield how it is begun by who names it in the palette, whoever may do it: by default on its page."""
        if self.begun_on:
            address = reverse(self.begun_on) + self.begun_at
            yield Command("", str(self.title), self.name, self.permission, dict, address=address)

    # what is touched

    @abstractmethod
    def preview(self, parameters: Mapping[str, Any]) -> PreviewOf:
        """Count what would be touched now; raises ClientError, TooMany."""

    def preview_of_one(self, at_ms: int, label: Mapping[str, Any]) -> dict[str, Any]:
        """Return the row of a preview of one thing, for what was done by a call of its own."""
        topics = [[label.get("topic", ""), 1]]
        return {**self._empty_row, "at_ms": at_ms, "count": 1, "examples": [label], "topics": topics}

    @cached_property
    def _empty_row(self) -> Mapping[str, Any]:
        """The row of a preview of nothing: made once, as single calls are many."""
        return self.preview_type().as_row()

    def undecided(self, parameters: Mapping[str, Any], preview: PreviewOf) -> OperationError | None:
        """Return what has to be chosen first, where the preview asks for a choice that nobody has made."""
        return None

    @abstractmethod
    def targets(self, parameters: Mapping[str, Any], preview: PreviewOf) -> Sequence[Target]:
        """Return what is touched, counted again; at most LIMIT, else raises TooMany. Raises ClientError."""

    def scope(self, parameters: Mapping[str, Any], preview: Mapping[str, Any] | None) -> Scope:
        """Return the names that bound it; `preview` (its row) is None before it was counted."""
        return UNBOUNDED

    @property
    def is_of_all(self) -> bool:
        """Whether no name ever bounds it: who sees some topics only is refused before anything is asked."""
        return type(self).scope is Kind.scope

    def first_call(self, parameters: Mapping[str, Any]) -> Call | None:
        """Return a call of REST to begin with, which the secret opens that was made; None: it opens none."""
        return None

    def is_open_to(self, visible: VisibleTopics) -> bool:
        """Return whether who sees these topics can do it to something."""
        return visible.is_all or not self.is_of_all

    def topics_touched(self, parameters: Mapping[str, Any], preview: Mapping[str, Any]) -> frozenset[str] | None:
        """Return the topics that a REST token has to allow; None: nothing bounds them, so it needs all."""
        return self.scope(parameters, preview).topics or None

    # what it does

    @abstractmethod
    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Do it to at most BATCH targets, in order; raises ClientError when nothing can be said of any."""

    def act_as(
        self, who: str, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]
    ) -> list[ItemResult]:
        """Do it in the name of who confirmed it, for brokers that keep who did what; else as `act`."""
        return self.act(parameters, reason, targets)

    # how it is shown

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return in words which things were chosen."""
        return str(self.title)

    def typed_word(self, parameters: Mapping[str, Any]) -> str:
        """Return what has to be typed to confirm; "": nothing but the number where there are many."""
        return ""

    def leave_address(self, parameters: Mapping[str, Any]) -> str:
        """Return the address to which one goes who leaves it."""
        return self.list_address()

    def back_to(self, parameters: Mapping[str, Any]) -> tuple[Words, str]:
        """Return what leads back to what it was about, and its address: it may be gone by then."""
        return self.leave_words, self.leave_address(parameters)

    @property
    def looks_harmful(self) -> bool:
        """Tell whether its button looks like that of what destroys."""
        return self.destroys if self.is_red is None else self.is_red

    def lag_now(self, parameters: Mapping[str, Any], preview: PreviewOf) -> int | None:
        """Return how far those are behind now whose lag the preview told; None: it is not known."""
        return None

    def lag_of(self, parameters: Mapping[str, Any], preview: PreviewOf) -> str:
        """Return whose lag that is: a group, or all groups of some topics."""
        return ""

    def marked(self, preview: PreviewOf) -> str:
        """Return what a mark on a chart says of it besides its title and who did it."""
        return ""

    def list_address(self) -> str:
        """Return the address of the page from which it is begun."""
        return reverse(self.list_page or self.page)

    def shown_parameters(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters without secrets: they stand in calls and in the audit."""
        return dict(parameters)

    def item_now(self, item: OperationItem) -> ItemNow | None:
        """Return where a touched thing is now, or why it was not touched; None: nothing is known of that."""
        result = item.result
        if result.get("delivered_ms"):
            return ItemNow(result["delivered_ms"])
        error = result.get("error")
        if error == "not-supported":
            return ItemNow(text=gettext("this broker does not support this request"))
        if error:
            return ItemNow(text=str(error))
        page = self.page_of(item) if item.outcome in self.outcomes else None
        return ItemNow(text=page[0], address=page[1]) if page is not None else None

    def page_of(self, item: OperationItem) -> tuple[str, str] | None:
        """Return what leads to the page of what an item made or changed, and its address; None: it has none."""
        return None

    def became(self, row: Operation, items: Sequence[OperationItem]) -> Mapping[int, ItemNow]:
        """Return by number what became of items since: of those of which a broker was asked, as this page is looked at,
        and answered; of the others `item_now` is shown."""
        return {}

    @abstractmethod
    def rest_call(self, parameters: Mapping[str, Any]) -> Call | None:
        """Return the REST call that does the same; None: there is none."""

    def told(self, row: Operation) -> dict[str, Any] | None:
        """Return what REST tells of an operation's result besides the counts of its outcomes; None: nothing."""
        return None

    # how it is taken back

    def undo_of(self, row: Operation) -> Undo | None:
        """Return how far this operation can be taken back; None: its kind cannot, or it did nothing."""
        return None

    def undo_parameters(self, row: Operation, given: QueryDict) -> dict[str, Any]:
        """Return the parameters of the operation (of kind `undone_by`) that takes it back; raises NotPossible."""
        raise NotPossible("This cannot be undone.")

    def taken_back(self, row: Operation, items: Sequence[OperationItem]) -> Mapping[int, OperationItem]:
        """Return by the number of an item the item of the other operation that took it back."""
        return {}


def renamed(given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields that are given and not empty, under the names that REST has for them."""
    return {names[name]: given[name] for name in names if given.get(name) not in (None, "")}


class AtOnce(Kind[PreviewOf]):
    """A kind about one thing of this database: it is done in one transaction, or refused."""

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Act in nobody's name."""
        return self.act_as("", parameters, reason, targets)

    def act_as(
        self, who: str, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]
    ) -> list[ItemResult]:
        """Do it, or say why it is refused."""
        try:
            with transaction.atomic():
                return [self.done(who, parameters, reason)]
        except NotPossible as error:
            return [ItemResult("refused", {"error": str(error)})]

    @abstractmethod
    def done(self, who: str, parameters: Mapping[str, Any], reason: str) -> ItemResult:
        """Do it in the name of `who`; raises NotPossible."""
