"""The chain of the audit: each entry holds the hash of its content and of the entry before.

What goes into a hash is written as a trigger of the database writes it (migration 0026), and computed here by itself:
whoever changes an entry and the functions of the database is found out all the same. The chain does not tell of one
who computes it anew from the changed entry on; for that its end has to be known elsewhere: the file that entries are
exported to, or `audit verify --known`.

Each field: its length in bytes, a colon, the text, a comma; "-," for none. In this order: the hash before, number,
moment (UTC, microseconds), who, what, kind, operation, why, result (JSON as PostgreSQL writes it).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from django.db import connection, transaction

#: entries that are read at once
BATCH = 2_000
_ROWS = """
    SELECT number, to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), actor, what, kind, operation::text,
           reason, result::text, previous, digest
      FROM console_auditentry WHERE number > %s ORDER BY number LIMIT %s
"""
_END = "SELECT number, digest FROM console_auditend"


@dataclass(frozen=True, slots=True)
class Link:
    """An entry as it goes into its hash."""

    number: int
    at: str
    actor: str
    what: str
    kind: str
    operation: str | None
    reason: str
    result: str
    previous: str
    digest: str

    def computed(self) -> str:
        """Return the hash that the entry should have."""
        fields = (self.previous, str(self.number), self.at, self.actor, self.what, self.kind, self.operation,
                  self.reason, self.result)  # fmt: skip
        return hashlib.sha256(b"".join(map(_field, fields))).hexdigest()

    def line(self) -> str:
        """Return the entry as one line of JSON."""
        told = {
            "number": self.number,
            "at": self.at,
            "actor": self.actor,
            "what": self.what,
            "kind": self.kind,
            "operation": self.operation,
            "reason": self.reason,
            "result": json.loads(self.result),
            "previous": self.previous,
            "digest": self.digest,
        }
        return json.dumps(told, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a look at the whole chain found; `flaw` says what does not fit, None: all does."""

    entries: int
    digest: str
    flaw: str | None = None


def links(after: int = 0) -> Iterator[Link]:
    """Yield the entries behind this number, in the order of the chain."""
    while True:
        with closing(connection.cursor()) as cursor:
            cursor.execute(_ROWS, [after, BATCH])
            rows = cursor.fetchall()
        for row in rows:
            yield Link(*row)
        if len(rows) < BATCH:
            return
        after = rows[-1][0]


def verify(known: Mapping[int, str] | None = None) -> Verdict:
    """Look at every entry and name the first that does not fit; `known`: hashes noted elsewhere, by number."""
    wanted = dict(known or {})
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        # one state of the database, whoever writes meanwhile
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute(_END)
        end = cursor.fetchone() or (0, "")
        number, digest = 0, ""
        for link in links():
            flaw = _flaw(link, number, digest) or _unknown(link, wanted)
            if flaw:
                return Verdict(number, digest, flaw)
            number, digest = link.number, link.digest
    if (number, digest) != tuple(end):
        return Verdict(number, digest, f"the newest entries are missing: the chain ended with number {end[0]}")
    if wanted:
        return Verdict(number, digest, f"there is no entry {min(wanted)}, whose hash is known")
    return Verdict(number, digest)


def _flaw(link: Link, number: int, digest: str) -> str | None:
    if link.number != number + 1:
        return f"entry {number + 1} is missing"
    if link.previous != digest:
        return f"entry {link.number} does not continue the one before"
    if link.computed() != link.digest:
        return f"entry {link.number} of {link.at} was changed after it was written"
    return None


def _unknown(link: Link, wanted: dict[int, str]) -> str | None:
    digest = wanted.pop(link.number, link.digest)
    return None if digest == link.digest else f"entry {link.number} has another hash than the one that is known"


def _field(said: str | None) -> bytes:
    if said is None:
        return b"-,"
    text = said.encode()
    return b"%d:%s," % (len(text), text)


def as_known(text: str) -> tuple[int, str]:
    """Read "number:hash"; raises ValueError."""
    number, _colon, digest = text.strip().partition(":")
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise ValueError(f"{text[:100]!r} is no number and hash, such as 120:{'0' * 8}...")
    return int(number), digest


def known_of(file: Path) -> dict[int, str]:
    """Return the hashes of exported entries, by number; raises ValueError, OSError."""
    found: dict[int, str] = {}
    with file.open(encoding="utf-8") as lines:
        for at, line in enumerate(lines, 1):
            try:
                told = json.loads(line)
                number, digest = told["number"], told["digest"]
            except (ValueError, TypeError, KeyError):
                raise ValueError(f"Line {at} of {file} is no exported entry.") from None
            if found.setdefault(number, digest) != digest:
                raise ValueError(f"Entry {number} stands in {file} twice, with different hashes.")
    return found
