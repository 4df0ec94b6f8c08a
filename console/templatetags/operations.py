"""Operations in words, what became of each thing that they touch, and the calls that do the same by other ways.

Other ways than an operation's page are REST, a shell and Python.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from django import template
from django.utils.translation import gettext as _

from console.operations.kind import ItemNow, Preview
from console.operations.models import AuditEntry, Operation, OperationItem
from console.operations.move_times import all_at, later
from console.operations.reading import OperationPage, masked_parameters
from console.operations.registry import ACTS, KINDS, OUTCOMES
from console.rest.curl import curl
from console.rest.rights import Included, calls_with
from console.templatetags.escapement import span

register = template.Library()


@register.filter
def for_count(words: Any, count: int | None) -> str:
    """What a button does to so many things: "Cancel it", "Cancel them"; words without a plural stay as they are."""
    return str(words % {"count": 2 if count is None else count})


#: the console under the name that it is imported by: another one in a wheel
_CONSOLE = __name__.removesuffix(".templatetags.operations")


@register.filter
def kind_title(name: str) -> str:
    """Return the title of a kind of operation, or of another act of the audit; its name where it is not known."""
    act = ACTS.get(name)
    return str(act.title) if act is not None and act.title else name


@register.filter
def outcome_words(code: str) -> str:
    """Return what became of one thing, in words."""
    outcome = OUTCOMES.get(code)
    return str(outcome.words) if outcome is not None else code


@register.filter
def outcome_mark(code: str) -> str:
    """Return the mark beside it: ok, idle (nothing was done) or look."""
    outcome = OUTCOMES.get(code)
    return outcome.mark if outcome is not None else "ok"


@register.filter
def had_no_effect(row: Operation) -> bool:
    """Tell whether it came to its end and nothing of what it touched was changed."""
    found = [OUTCOMES.get(code) for code, count in row.results.items() if count]
    is_sure = all(each is not None and each.mark != "ok" and not each.is_unsure for each in found)
    return row.state == Operation.State.DONE and bool(found) and is_sure


@register.simple_tag
def selection_words(row: Operation) -> str:
    """Return which things were chosen."""
    kind = KINDS.get(row.kind)
    return "" if kind is None else kind.selection(row.parameters)


@register.simple_tag
def item_now(page: OperationPage, item: OperationItem) -> ItemNow | None:
    """Return where a touched thing is now; None: nothing is known of that."""
    return page.now.get(item.number)


@register.inclusion_tag("operations/move_times.html", takes_context=True)
def move_times(context: template.Context, row: Operation, preview: Preview) -> dict[str, object]:
    """Times that a move is asked for most, a press each: by how much later, or one time for all."""
    count = preview.count if preview.count is not None else getattr(preview, "met_count", None)
    shown = {"row": row, "count": count, "later": later(row.parameters.get("shift_ms"))}
    shown |= {"all_at": all_at(row.parameters.get("due_ms"))}
    return {**shown, "csrf_token": context.get("csrf_token")}


@register.simple_tag
def shift_words(shift_ms: int) -> str:
    """Return a span with its sign."""
    return f"{'+' if shift_ms >= 0 else '-'}{span(abs(shift_ms))}"


@register.simple_tag
def moved_ms(parameters: Mapping[str, Any], due_ms: int | None) -> int | None:
    """Return when one is due that is due at `due_ms` and is moved: to one moment, or by a span; None: it stays."""
    if parameters.get("due_ms") is not None:
        return int(parameters["due_ms"])
    shift_ms = parameters.get("shift_ms")
    return None if shift_ms is None or due_ms is None else due_ms + int(shift_ms)


@register.simple_tag
def what_took_back(back: Mapping[int, OperationItem], number: int) -> OperationItem | None:
    """Return the item of another operation that took back the one with this number."""
    return back.get(number)


@register.simple_tag
def audit_words(entry: AuditEntry) -> str:
    """Return what came of what an entry of the audit tells."""
    result = entry.result
    if entry.what == AuditEntry.What.FINISHED:
        counts = ", ".join(f"{outcome_words(code)} {count:,}" for code, count in result.get("outcomes", {}).items())
        state = Operation.State(result["state"]).label if result.get("state") in Operation.State.values else ""
        return " · ".join(filter(None, [str(state), counts, result.get("error", "")]))
    if entry.kind in ACTS and (said := ACTS[entry.kind].audited(result)):
        return said
    if entry.what == AuditEntry.What.CONFIRMED:
        return _("%(count)s previewed") % {"count": f"{result.get('count') or 0:,}"}
    if result.get("total") is not None:
        return _("%(done)s of %(total)s done") % {"done": f"{result['done']:,}", "total": f"{result['total']:,}"}
    return ""


@register.simple_tag(takes_context=True)
def same_call(context: template.Context, row: Operation) -> str:
    """The REST call that does the same, for a shell; empty where there is none."""
    kind = KINDS.get(row.kind)
    call = None if kind is None else kind.rest_call(masked_parameters(row.kind, row.parameters))
    origin = context["request"].build_absolute_uri("/").rstrip("/") if "request" in context else ""
    return "" if call is None else curl(origin, *call)


@register.simple_tag(takes_context=True)
def first_call(context: template.Context, row: Operation, secret: str) -> str:
    """Lines for a shell that use the token that was made; empty where it opens no call that can be shown."""
    kind = KINDS.get(row.kind)
    call = None if kind is None else kind.first_call(row.parameters)
    origin = context["request"].build_absolute_uri("/").rstrip("/")
    return "" if call is None else f"TOKEN={shlex.quote(secret)}\n{curl(origin, *call)}"


@register.simple_tag
def calls_of_right(right: str) -> tuple[Included, ...]:
    """The calls that a right of a token includes."""
    return calls_with(right)


@register.filter
def shell_call(row: Operation) -> str:
    """The same in a shell of the machine that runs the console."""
    given = json.dumps(masked_parameters(row.kind, row.parameters), ensure_ascii=False)
    of = f"--broker {shlex.quote(row.broker)} " if row.broker else ""
    return f"manage.py operate {row.kind} {shlex.quote(given)} \\\n  {of}--reason ... --run"


@register.filter
def python_call(row: Operation) -> str:
    """The same in Python, where Django is set up; `user` is who does it."""
    given = masked_parameters(row.kind, row.parameters)
    start = f"workflow.start({row.kind!r}, {given!r},\n               Actor.of(user), reason=...)"
    imports = f"from {_CONSOLE}.operations import workflow\nfrom {_CONSOLE}.operations.actor import Actor\n"
    if not row.broker:
        return f"{imports}\n{start}"
    imports += f"from {_CONSOLE}.site.chosen import choice_of, choosing\n"
    return f"{imports}\nwith choosing(choice_of({row.broker!r})):\n    {start}"
