"""An operation asked for by REST: previewed, or begun, by the console's own code, in a thread that may wait.

What a token may touch is known before, where the request names topics; where it names records, by what the preview
finds them to be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from django.db import connection
from starlette.responses import Response

from broker.client import ClientError
from console.operations import errors, workflow
from console.operations.actor import Actor
from console.operations.models import Operation
from console.operations.reading import masked_examples, masks_of
from console.operations.registry import kind_of
from console.security.tokens import PUBLISH, Grant

from .access import require, require_everywhere
from .errors import (
    OperationRefused,
    PolicyDenies,
    RequestError,
    ScopeMissing,
    TooManyMatch,
    TopicHasWaiting,
)
from .responses import json_answer
from .schemas import OperationPreview, OperationShown

#: raises ScopeMissing or PolicyDenies; is given the topics that are touched, None: not bounded
Allow = Callable[[frozenset[str] | None], None]
Result = TypeVar("Result")
_threads = ThreadPoolExecutor(2, thread_name_prefix="api-operations")


async def begun(
    kind: str,
    parameters: Mapping[str, Any],
    reason: str,
    actor: Actor,
    *,
    allow: Allow | None = None,
    is_look: bool = False,
) -> Response:
    """Begin an operation and say where to look (a small one has run by then), or say what it would touch."""
    if is_look:
        return json_answer(await in_thread(lambda: _looked(kind, parameters, allow)))
    shown = await in_thread(lambda: shown_of(_begun(kind, parameters, reason, actor, allow)))
    answer = json_answer(shown, 202)
    answer.headers["location"] = f"/api/v1/operations/{shown.id}"
    return answer


def allowed(grant: Grant, *actions: str) -> Allow:
    """The token has to allow these actions on every topic that is touched; on all, where that is not known."""

    def allow(topics: frozenset[str] | None) -> None:
        for action in actions or (PUBLISH,):
            try:
                if not topics:
                    require_everywhere(grant, action)
                for topic in topics or ():
                    require(grant, action, topic)
            except (ScopeMissing, PolicyDenies) as error:
                # a record that is named by its place must not tell which topic it is of, nor whether it is there
                raise type(error)(
                    f"The token {grant.name!r} does not allow {action!r} on all that is named; what is not known to be "
                    "of topics that it allows needs one for every topic."
                ) from None

    return allow


def _begun(kind: str, parameters: Mapping[str, Any], reason: str, actor: Actor, allow: Allow | None) -> Operation:
    row = workflow.draft(kind, parameters, actor)
    if allow is not None:
        try:
            allow(kind_of(row.kind).topics_touched(row.parameters, row.preview))
        except RequestError:
            row.delete()
            raise
    try:
        return workflow.confirm(row.pk, actor, reason=reason, is_typing_needed=False)
    except errors.PendingUndecided:
        row.delete()
        raise


def _looked(name: str, parameters: Mapping[str, Any], allow: Allow | None) -> OperationPreview:
    kind = kind_of(name)
    checked = kind.checked(parameters)
    preview = kind.preview(checked).as_row()
    if allow is not None:
        allow(kind.topics_touched(checked, preview))
    return OperationPreview(kind=name, preview=_masked(name, preview))


def shown_of(row: Operation) -> OperationShown:
    """Return an operation as REST tells it; names of what it touches as the masks leave them."""
    return OperationShown(
        id=str(row.pk),
        kind=row.kind,
        state=row.state,
        reason=row.reason,
        total=row.total,
        done=row.done,
        results=row.results,
        error=row.error or None,
        created_ms=round(row.created_at.timestamp() * 1000),
        finished_ms=round(row.finished_at.timestamp() * 1000) if row.finished_at is not None else None,
        preview=_masked(row.kind, row.preview),
        told=kind_of(row.kind).told(row),
    )


def _masked(kind: str, preview: Mapping[str, Any]) -> dict[str, Any]:
    return {**preview, "examples": masked_examples(preview.get("examples", ()), masks_of(kind))}


async def in_thread(work: Callable[[], Result]) -> Result:
    """Return what `work` returns, which may wait for database or broker; errors of operations become those of REST."""
    return await asyncio.get_running_loop().run_in_executor(_threads, _with_database, work)


def _with_database(work: Callable[[], Result]) -> Result:
    try:
        return work()
    except (RequestError, ClientError):
        raise
    except errors.TooMany as error:
        raise TooManyMatch(str(error)) from None
    except errors.PendingUndecided as error:
        raise TopicHasWaiting(str(error), error.waiting) from None
    except errors.OperationError as error:
        raise OperationRefused(str(error), error.field) from None
    finally:
        connection.close()
