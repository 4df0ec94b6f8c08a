"""The audit is a chain: whoever changes, takes away or adds an entry behind the console's back is found out."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from console.operations import chain
from console.operations.exported_audit import ExportFailed, export_to
from console.operations.models import AuditEnd, AuditEntry

pytestmark = pytest.mark.django_db(transaction=True)

HARD = 'a "b" \\ \n ü 時 \x7f 😀 ,5:x,'


def entries(*reasons: str) -> None:
    for reason in reasons:
        AuditEntry.objects.create(actor="anna", what="confirmed", kind="timers.cancel", reason=reason)


def tamper(statement: str, *values: Any) -> None:
    """Change the table as who may do everything can."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(statement, values)


def flaw() -> str | None:
    return chain.verify().flaw


def test_entries_fit_whatever_they_say() -> None:
    assert chain.verify() == chain.Verdict(0, "")
    entries("one", "", HARD)
    for result in ({"b": 1.50, "a": [None, True, HARD], "c": {"big": 10**20, "small": 1e-7}}, {}, []):
        AuditEntry.objects.create(actor=HARD, what="done", kind="x", result=result)
    AuditEntry.objects.bulk_create([AuditEntry(actor=str(number), what="done", kind="x") for number in range(5)])
    verdict = chain.verify()
    assert (verdict.entries, verdict.flaw) == (11, None)
    assert AuditEnd.objects.get().digest == verdict.digest


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE console_auditentry SET reason = 'other' WHERE number = 2", "entry 2 .* was changed"),
        ("UPDATE console_auditentry SET actor = 'ben' WHERE number = 3", "entry 3 .* was changed"),
        ("UPDATE console_auditentry SET at = at + interval '1 microsecond' WHERE number = 1", "entry 1 .* was changed"),
        ("UPDATE console_auditentry SET result = '{\"count\": 1}' WHERE number = 2", "entry 2 .* was changed"),
        ("DELETE FROM console_auditentry WHERE number = 2", "entry 2 is missing"),
        ("DELETE FROM console_auditentry WHERE number = 3", "the newest entries are missing"),
        ("DELETE FROM console_auditentry", "the newest entries are missing"),
        (
            "UPDATE console_auditentry SET reason = 'x', digest = repeat('0', 64) WHERE number = 2",
            "entry 2 .* was changed",
        ),
    ],
)
def test_the_first_entry_that_does_not_fit_is_named(statement: str, words: str) -> None:
    entries("one", "two", "three")
    assert flaw() is None
    tamper(statement)
    with pytest.raises(CommandError, match=f"not as it was written: {words}"):
        call_command("audit", "verify")


def test_one_who_computes_it_anew_is_found_by_what_is_known_elsewhere(tmp_path: Path) -> None:
    entries("one", "two", "three")
    out = StringIO()
    call_command("audit", "verify", stdout=out)
    known = out.getvalue().split()[-1]
    export_to(tmp_path / "audit.jsonl")
    tamper("UPDATE console_auditentry SET reason = 'other' WHERE number = 2")
    anew = import_module("console.migrations.0026_audit_chain")._OLD
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica; DELETE FROM console_auditend")
        cursor.execute(anew)
        cursor.execute("SET session_replication_role = origin")
    assert flaw() is None
    with pytest.raises(CommandError, match="entry 3 has another hash than the one that is known"):
        call_command("audit", "verify", known=[known])
    with pytest.raises(CommandError, match="entry 2 has another hash"):
        call_command("audit", "verify", file=str(tmp_path / "audit.jsonl"))


def test_what_is_known_and_not_there_is_missed() -> None:
    entries("one")
    with pytest.raises(CommandError, match="there is no entry 7"):
        call_command("audit", "verify", known=["7:" + "0" * 64])
    with pytest.raises(CommandError, match="no number and hash"):
        call_command("audit", "verify", known=["7"])


def test_those_who_write_at_the_same_time_make_one_chain() -> None:
    def write(number: int) -> None:
        for at in range(20):
            with transaction.atomic():
                entries(f"{number}-{at}")
        connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    verdict = chain.verify()
    assert (verdict.entries, verdict.flaw) == (160, None)


def test_a_write_that_is_taken_back_leaves_no_gap() -> None:
    entries("one")
    with transaction.atomic():
        entries("never")
        transaction.set_rollback(True)
    entries("two")
    assert chain.verify().entries == 2
    assert flaw() is None


def test_the_database_itself_refuses_to_change_one() -> None:
    user = get_user_model().objects.create_user("anna")
    AuditEntry.objects.create(actor="anna", user=user, what="done", kind="x")
    for statement in ("UPDATE console_auditentry SET reason = 'x'", "DELETE FROM console_auditentry"):
        with pytest.raises(DatabaseError, match="written once"), connection.cursor() as cursor:
            cursor.execute(statement)
    user.delete()
    assert AuditEntry.objects.get().user_id is None
    assert flaw() is None


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_the_file_grows_by_what_is_new(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    assert export_to(file) == 0
    entries("one", HARD)
    assert export_to(file) == 2
    assert export_to(file) == 0
    entries("three")
    with file.open("a") as out:
        out.write('{"number": 3, "at": "half a li')
    assert export_to(file) == 1
    assert [line["reason"] for line in lines(file)] == ["one", HARD, "three"]
    assert lines(file)[-1]["digest"] == chain.verify().digest
    assert file.stat().st_mode & 0o077 == 0


def test_a_file_that_was_moved_away_is_begun_with_what_is_new(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    entries("one")
    export_to(file)
    file.rename(tmp_path / "audit.jsonl.1")
    entries("two")
    export_to(file)
    assert [line["reason"] for line in lines(file)] == ["two"]


def test_a_file_that_is_none_of_this_audit_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    for text in ('{"number": 9}\n', "something else\n"):
        file.write_text(text)
        with pytest.raises(ExportFailed):
            export_to(file)
        assert file.read_text() == text
    with pytest.raises(ExportFailed, match="No such file"):
        export_to(tmp_path / "nowhere" / "audit.jsonl")


def test_entries_are_printed_as_lines() -> None:
    entries("one", "two")
    out = StringIO()
    call_command("audit", "export", after=1, stdout=out)
    assert [json.loads(line)["reason"] for line in out.getvalue().splitlines()] == ["two"]
