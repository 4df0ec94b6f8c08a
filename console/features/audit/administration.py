"""What was administered by remoting, taken from the brokers' administration logs into the audit, each request once.

A broker numbers its requests and keeps the newest few thousand (broker/server/administration.py). The last number that
the audit has is written in the same transaction as the entries. What was lost before it could be read, because there
was too much of it or the store is another one, is an entry by itself. Of a broker that is not Escapement nothing is
known.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from django.db import transaction

from broker.client import ClientError, NotSupported
from broker.client.admin import Administration, AdministrativeRequest
from broker.mirror.models import MirrorState
from broker.rocketmq.codes import Answer
from console.features.audit.operations import Lost, Remoting
from console.operations.models import AuditEntry, ReadAdministration
from console.site import broker as site_broker

logger = logging.getLogger(__name__)

#: parts of one log that a round reads
_PARTS = 20
_ACTOR_LENGTH = 150
_away: set[str] = set()


def read() -> int:
    """Take what is new at every broker into the audit; returns how many requests that were."""
    count = 0
    for name in MirrorState.objects.order_by("broker").values_list("broker", flat=True):
        try:
            count += read_broker(name)
            _away.discard(name)
        except NotSupported:
            continue
        except ClientError as error:
            if name not in _away:
                logger.warning("the administration log of %s cannot be read now: %s", name, error)
            _away.add(name)
    return count


def read_broker(name: str) -> int:
    """Take what is new at one broker; raises ClientError."""
    count = 0
    for _part in range(_PARTS):
        row = ReadAdministration.objects.filter(broker=name).first()
        with site_broker.at(name):
            told = site_broker.admin().administration(*(("", 0) if row is None else (row.log, row.number)))
        if not told.log:
            break
        taken = _take(name, told)
        count += taken
        if not taken or told.requests[-1].number >= told.last:
            break
    return count


def _take(broker: str, told: Administration) -> int:
    with transaction.atomic():
        row = ReadAdministration.objects.select_for_update().filter(broker=broker).first()
        if row is None:
            row = ReadAdministration(broker=broker, log="", number=0)
        if row.log != told.log:
            row.log, row.number = told.log, 0
        new = [each for each in told.requests if each.number > row.number]
        if not new:
            return 0
        lost = new[0].number - row.number - 1
        entries = [_entry(broker, each) for each in new]
        if lost > 0:
            entries.insert(0, _lost(broker, lost))
        AuditEntry.objects.bulk_create(entries)
        row.number = new[-1].number
        row.save()
        return len(new)


def _entry(broker: str, asked: AdministrativeRequest) -> AuditEntry:
    is_done = asked.answer in (None, Answer.SUCCESS)
    result: dict[str, Any] = {
        "broker": broker,
        "number": asked.number,
        "request": asked.request,
        "code": asked.code,
        "name": f"{broker} · {asked.request}",
        "fields": asked.fields,
        "body": asked.body,
        "address": asked.sender,
        "answer_code": asked.answer,
        "answer": asked.remark if not is_done else "",
        "at": datetime.fromtimestamp(asked.at_ms / 1000, UTC).isoformat(),
    }
    return AuditEntry(
        actor=(f"User:{asked.user}" if asked.user else asked.sender)[:_ACTOR_LENGTH],
        what=AuditEntry.What.DONE if is_done else AuditEntry.What.FAILED,
        kind=Remoting.name,
        result=result,
    )


def _lost(broker: str, count: int) -> AuditEntry:
    told = {"name": broker, "count": count, "why": f"{count} were kept no longer"}
    return AuditEntry(actor="", what=AuditEntry.What.FAILED, kind=Lost.name, result=told)
