"""Two hundred hostile texts in what the console itself keeps: alerts, silences, audit, operations, saved views."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone

from console.features.alerts.models import Alert, AlertRule, Silence
from console.operations.models import AuditEntry, Operation
from console.ui.saved_views import SavedView
from tests.console.ui.test_hostile import SCHEMES, TEXTS, Skeleton

PAGES = ("/alerts/", "/operations/", "/views/", "/find/")
#: fewer than any list shows at once; of the audit, which nobody deletes, as many as it shows
ROWS, AUDITED = 40, 100


def shown(operator: Client, texts: list[str]) -> list[Skeleton]:
    """The pages with these texts in every row and field."""
    user, now = get_user_model().objects.get(username="operator"), timezone.now()
    for model in (Alert, AlertRule, Silence, Operation, SavedView):
        model.objects.all().delete()  # type: ignore[attr-defined] # every model has them
    for number, text in enumerate(texts):
        rule = AlertRule.objects.create(what="backlog", subject=text[:255], limit=number, webhook=text[:500])
        for state in ("firing", "ended"):
            ended_at = now if state == "ended" else None
            Alert.objects.create(rule=rule, subject=text[:255], value=1, highest=1, state=state, since=now,
                                 raised_at=now, ended_at=ended_at, told_before=text[:2_000])  # fmt: skip
        Silence.objects.create(
            rule=rule, subject=text[:255], until=now + timedelta(hours=1), reason=text[:500], actor=text[:150]
        )
        Operation.objects.create(
            kind="timers.cancel", state="done", reason=text[:500], actor=text[:150], created_by=user, preview={},
            parameters={"filter": {"topic": text[:255], "key": text[:255]}},
        )  # fmt: skip
        SavedView.objects.create(owner=user, page="groups", path="/groups/", name=f"{number} {text}"[:60])
    answers = {page: operator.get(page) for page in PAGES}
    assert {page: answer.status_code for page, answer in answers.items()} == dict.fromkeys(PAGES, 200)
    return [Skeleton(answer.content.decode()) for answer in answers.values()]


def audited(operator: Client, texts: list[str]) -> Skeleton:
    """The newest of the audit, these."""
    for text in texts:
        AuditEntry.objects.create(
            actor=text[:150], what="confirmed", kind="timers.cancel", reason=text[:500], result={"error": text[:500]}
        )
    return Skeleton(operator.get("/audit/").content.decode())


def harmless(count: int) -> list[str]:
    return [f"harmless-{number}" for number in range(count)]


def is_safe(page: Skeleton) -> bool:
    return not [each for each in page.addresses if each.strip().lower().startswith(SCHEMES)]


def test_no_text_that_is_kept_becomes_markup(operator: Client) -> None:
    kept = [text.replace("\0", "") or "x" for text in TEXTS]
    for first in range(0, len(kept), ROWS):
        texts = kept[first : first + ROWS]
        hostile, plain = shown(operator, texts), shown(operator, harmless(len(texts)))
        for page, found, wanted in zip(PAGES, hostile, plain, strict=True):
            assert found.elements == wanted.elements, page
            assert is_safe(found), page


def test_no_text_of_the_audit_becomes_markup(operator: Client) -> None:
    kept = [text.replace("\0", "") or "x" for text in TEXTS]
    audited(operator, harmless(AUDITED))  # so that each look has a page before it
    for texts in (kept[:AUDITED], kept[-AUDITED:]):
        found = audited(operator, texts)
        assert found.elements == audited(operator, harmless(AUDITED)).elements
        assert is_safe(found)
