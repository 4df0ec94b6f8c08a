"""What a broker's answer to a send means."""

from __future__ import annotations

from typing import Literal, cast

from ..rocketmq.codes import Answer
from .destinations import Destination
from .errors import ClientError
from .outgoing import Outgoing
from .pipeline import Outcome
from .remoting import Response
from .send_reply import Stored
from .session import refusal
from .types import SendResult

#: Stored, with less safety than was asked for (ResponseCode of 5.5.0).
STORED = {
    int(Answer.SUCCESS): "SEND_OK",
    10: "FLUSH_DISK_TIMEOUT",
    11: "SLAVE_NOT_AVAILABLE",
    12: "FLUSH_SLAVE_TIMEOUT",
}


def result_of(destination: Destination, message: Outgoing, outcome: Outcome) -> SendResult | ClientError:
    """What a broker's answer to a send means."""
    if type(outcome) is Stored:
        queue = destination.queue
        return SendResult(
            message.unique_id,
            outcome.offset_message_id,
            queue.topic,
            queue.broker,
            outcome.queue_id,
            outcome.queue_offset,
            due_ms=outcome.due_ms,
            recall_handle=outcome.recall_handle,
        )
    if isinstance(outcome, ClientError):
        return outcome
    return _full_result(destination, message, cast(Response, outcome))


def _full_result(destination: Destination, message: Outgoing, outcome: Response) -> SendResult | ClientError:
    status = STORED.get(outcome.code)
    if status is None:
        return refusal(outcome)
    ext = outcome.ext
    queue = destination.queue
    due = ext.get("escDueMs")
    conflict = ext.get("escConflict")
    return SendResult(
        ext.get("transactionId", "") if conflict == "kept" else message.unique_id,
        ext.get("msgId", ""),
        queue.topic,
        queue.broker,
        int(ext.get("queueId", queue.queue_id)),
        int(ext.get("queueOffset", -1)),
        status,
        int(due) if due is not None else None,
        ext.get("recallHandle"),
        cast(Literal["replaced", "kept"], conflict) if conflict in ("replaced", "kept") else None,
    )
