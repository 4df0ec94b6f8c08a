"""Every error of the REST interface, and what HTTP answer each becomes.

One table says which HTTP answer each error becomes. A rule is found by the error's class (its nearest listed ancestor),
for refusals of the broker also by RocketMQ's code. `code` is stable: programs may compare it. Answers are problem+json
(RFC 9457) and say what was wrong and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from broker.client import HalfNotSafe
from broker.client import errors as client
from broker.client.errors import Answer, InvalidFilter, NotThisEvent, PlainSendRefused


class RequestError(Exception):
    """The request cannot be carried out; nothing was written."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class NotJson(RequestError):
    """The body is not JSON."""


class DuplicateName(RequestError):
    """A name appears twice in one JSON object."""


class SchemaViolated(RequestError):
    """The body is JSON but not of the form that is documented."""


class TooDeep(RequestError):
    """The JSON is nested more deeply than any valid request."""


class InvalidIdentifier(RequestError):
    """This is not a message id."""


class InvalidReceipt(RequestError):
    """This is not a receipt of a message."""


class InvalidParameter(RequestError):
    """A query parameter is not valid."""


class NotSecured(RequestError):
    """A token that came over a network in the clear is not one any more."""


class HostUnknown(RequestError):
    """The request is addressed to a host name that this server does not have."""


class BodyTooLarge(RequestError):
    """The request's body is larger than the limit."""


class BodyTooSlow(RequestError):
    """The request's body did not arrive in time."""


class WrongContentType(RequestError):
    """The body must be sent as application/json."""


class ContentEncoded(RequestError):
    """Encoded (compressed) bodies are not accepted."""


class TokenMissing(RequestError):
    """A bearer token is needed: Authorization: Bearer esc_..."""


class TokenInvalid(RequestError):
    """This token is not known, has expired or was revoked."""


class ScopeMissing(RequestError):
    """The token does not allow this action on this topic."""


class PolicyDenies(RequestError):
    """The policies of the user that the token is bound to do not allow this."""


class PermissionMissing(RequestError):
    """You do not have the permission that this needs."""


class AddressNotFound(RequestError):
    """There is nothing at this address."""


class MethodNotAllowed(RequestError):
    """This address does not support this method."""


class MessageNotFound(RequestError):
    """No message with this id is stored (any more)."""


class TopicUnknown(RequestError):
    """The broker has no such topic."""


class BrokerUnknown(RequestError):
    """The cluster has no such broker."""


class GroupUnknown(RequestError):
    """The broker has no such consumer group."""


class DescriptorUnknown(RequestError):
    """The topic has no descriptor."""


class InvalidMoment(RequestError):
    """This is not a time."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


class ZoneMissing(InvalidMoment):
    """A time without a zone is ambiguous."""


class MomentPast(InvalidMoment):
    """The time is past, and the request wants that refused."""


class TimerError(RequestError):
    """The timer is not as it would have to be; `due_ms` and `delivered_ms` say how it is, where that is known."""

    def __init__(self, message: str, *, due_ms: int | None = None, delivered_ms: int | None = None) -> None:
        super().__init__(message)
        self.due_ms = due_ms
        self.delivered_ms = delivered_ms


class TimerUnknown(TimerError):
    """No timer of that name is known (any more)."""


class AlreadyDelivered(TimerError):
    """The message was delivered before."""


class AlreadyCancelled(TimerError):
    """The timer was cancelled before."""


class TimerRefused(TimerError):
    """The broker refused this for this timer."""


class NotResendable(RequestError):
    """This message cannot be resent."""


class IdempotencyKeyUsed(RequestError):
    """This idempotency_key was used for another request."""


class IdempotencyKeyInvalid(RequestError):
    """This is not a key."""


class IdempotencyKeyMismatch(RequestError):
    """This Idempotency-Key was used for another request."""


class IdempotencyUnderWay(RequestError):
    """A request with this Idempotency-Key is under way."""


class IdempotencyUnknown(RequestError):
    """The outcome of the request with this Idempotency-Key is unknown: it may be done."""


class IdempotencyKeysFull(RequestError):
    """The token has used too many keys."""


class IdempotencyKeysAway(RequestError):
    """The store of keys does not respond; nothing was done."""


class NotKnown(RequestError):
    """It is unknown whether it was done."""


class NoOperation(RequestError):
    """There is no operation with this number."""


class OperationRefused(RequestError):
    """The operation cannot be done; nothing was changed."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class TopicHasWaiting(RequestError):
    """The topic has pending messages, and the request does not say what happens to them."""

    def __init__(self, message: str, waiting: Mapping[str, int | None]) -> None:
        super().__init__(message)
        self.waiting = dict(waiting)


class TooManyMatch(RequestError):
    """More timers match than one operation may touch."""


class CheckAddressUnknown(RequestError):
    """There is no check-back address for this producer group."""


class BrokerUserUnknown(RequestError):
    """No broker that answers has such a user of access control."""


class PersonUnknown(RequestError):
    """There is no account with this name."""


class RoleUnknown(RequestError):
    """There is no role with this name."""


class TokenUnknown(RequestError):
    """There is no token with this prefix."""


class AlertRuleUnknown(RequestError):
    """There is no alert rule with this number."""


class SilenceUnknown(RequestError):
    """There is no silence with this number, or it is over."""


class CheckAddressTaken(RequestError):
    """The producer group has a check-back address already."""


class RedisUnavailable(RequestError):
    """The Redis server of the delayed queues does not respond."""


class TooManyRequests(RequestError):
    """More messages are under way than the limit allows."""


class TokenLimited(RequestError):
    """The token exceeds its rate of requests."""


class TokensUnreadable(RequestError):
    """Tokens cannot be checked now because the database does not respond."""


class PoliciesUnreadable(RequestError):
    """The policies of the user that the token is bound to cannot be read now; nothing was done."""


class Unexpected(RequestError):
    """Something failed unexpectedly; the log has the details."""


DISK_FULL_WORDS = ("disk is too full", "disk is full")


@dataclass(frozen=True, slots=True)
class Rule:
    """The answer that an error becomes: HTTP status, stable code, title, remedy, and after how long trying again makes
    sense."""

    status: int
    code: str
    title: str
    remedy: str
    retry_after_s: int | None = None


INVALID_FILTER = Rule(
    400, "invalid_filter", "Invalid filter", "Correct the expression; docs/CONSUMING.md has the words."
)
RULES: dict[type[Exception], Rule] = {
    NotJson: Rule(400, "not_json", "Not JSON", "Send one JSON object in UTF-8."),
    DuplicateName: Rule(400, "duplicate_name", "Duplicate name", "Send each name once."),
    SchemaViolated: Rule(400, "invalid_request", "Invalid request", "Compare the body with /api/docs."),
    TooDeep: Rule(400, "too_deep", "Nested too deeply", "Send the object as it is documented in /api/docs."),
    InvalidIdentifier: Rule(400, "invalid_id", "Invalid message id", "Use the id that the send answered."),
    InvalidReceipt: Rule(400, "invalid_receipt", "Invalid receipt", "Use the receipt that came with the message."),
    InvalidParameter: Rule(400, "invalid_parameter", "Invalid parameter", "Compare the address with /api/docs."),
    NotSecured: Rule(
        403, "https_needed", "HTTPS needed", "Use HTTPS; revoke the token, it may have been read in transit."
    ),
    HostUnknown: Rule(400, "host_unknown", "Host unknown", "Use a host name of ESCAPEMENT_HOSTS, or add this one."),
    BodyTooLarge: Rule(
        413, "body_too_large", "Body too large", "Send less in one request, or a reference to the content."
    ),
    BodyTooSlow: Rule(408, "body_too_slow", "Body too slow", "Send the body without long pauses."),
    WrongContentType: Rule(415, "wrong_content_type", "Wrong content type", "Set Content-Type: application/json."),
    ContentEncoded: Rule(415, "content_encoded", "Encoded body", "Send the body as it is, without Content-Encoding."),
    TokenMissing: Rule(401, "token_missing", "Token missing", "Create one with: manage.py token create."),
    TokenInvalid: Rule(401, "token_invalid", "Token not valid", "Create a new one with: manage.py token create."),
    ScopeMissing: Rule(403, "scope_missing", "Not allowed", "Ask an administrator for a token with this scope."),
    PolicyDenies: Rule(
        403, "policy_denies", "Denied by access control", "Ask the administrator of users and policies."
    ),
    PermissionMissing: Rule(
        403, "permission_missing", "You may not do this", "Ask an administrator for a role with this permission."
    ),
    AddressNotFound: Rule(404, "not_found", "Not found", "All addresses are listed in /api/docs."),
    MethodNotAllowed: Rule(405, "method_not_allowed", "Method not allowed", "See the header Allow."),
    MessageNotFound: Rule(404, "message_not_found", "Message not found", "It may have passed its retention time."),
    TopicUnknown: Rule(404, "topic_not_found", "Topic not found", "Create the topic, or check its name."),
    BrokerUnknown: Rule(404, "broker_not_found", "Broker not found", "Check its name, or omit it for all."),
    GroupUnknown: Rule(404, "group_not_found", "Group not found", "Check the group's name."),
    DescriptorUnknown: Rule(404, "descriptor_not_found", "Descriptor not found", "Set one, or check the topic's name."),
    InvalidMoment: Rule(422, "invalid_moment", "Invalid time", "Give RFC 3339 with a zone, or epoch milliseconds."),
    ZoneMissing: Rule(422, "zone_missing", "Zone missing", "End the time with Z or an offset such as +01:00."),
    MomentPast: Rule(422, "moment_past", "Time is past", "Choose a later one, or leave reject_past out."),
    TimerError: Rule(409, "timer_conflict", "Timer conflict", "Check the timer, then decide."),
    TimerUnknown: Rule(404, "timer_unknown", "Timer unknown", "Check the name; it may have passed its retention."),
    AlreadyDelivered: Rule(409, "already_delivered", "Already delivered", "Its consumers have it; undo it there."),
    AlreadyCancelled: Rule(409, "already_cancelled", "Already cancelled", "Send the message again if needed."),
    TimerRefused: Rule(422, "timer_refused", "Not possible for this timer", "Correct what the detail names."),
    NotResendable: Rule(409, "not_resendable", "Not resendable", "Do what the detail names instead."),
    IdempotencyKeyInvalid: Rule(
        400, "idempotency_key_invalid", "Invalid idempotency key", "Send a UUID, or another string, in Idempotency-Key."
    ),
    IdempotencyKeyMismatch: Rule(
        422, "idempotency_key_mismatch", "Key of another request", "Use a key for one request only; create a new one."
    ),
    IdempotencyUnderWay: Rule(
        409, "idempotency_under_way", "Under way", "Repeat the request a little later: it gets the answer.", 1
    ),
    IdempotencyUnknown: Rule(
        409, "idempotency_unknown", "Outcome unknown", "Search for the message by its keys before using another key."
    ),
    IdempotencyKeysFull: Rule(
        429, "idempotency_keys_full", "Too many keys", "Wait for the next hour, or send without a key.", 60
    ),
    IdempotencyKeysAway: Rule(
        503, "idempotency_keys_away", "Keys unreadable", "Try again; nothing was done. Check Redis.", 2
    ),
    IdempotencyKeyUsed: Rule(409, "idempotency_key_used", "Idempotency key used", "Use a key once for each request."),
    NotKnown: Rule(504, "not_known", "Not known", "Check whether it arrived before you repeat it."),
    NoOperation: Rule(404, "operation_unknown", "Operation unknown", "Use the id from the answer of the request."),
    OperationRefused: Rule(422, "operation_refused", "Operation refused", "Correct what the detail names."),
    TopicHasWaiting: Rule(
        409, "topic_has_waiting", "Topic has pending messages", "Set pending=cancel or pending=keep."
    ),
    TooManyMatch: Rule(422, "too_many_match", "Too many match", "Narrow the filter and work in batches."),
    CheckAddressUnknown: Rule(
        404, "check_address_unknown", "No check-back address", "Register one, or check the group."
    ),
    PersonUnknown: Rule(404, "person_unknown", "No such user", "GET /people lists them."),
    RoleUnknown: Rule(404, "role_unknown", "No such role", "GET /roles lists them."),
    TokenUnknown: Rule(404, "token_unknown", "No such token", "GET /tokens lists them."),
    BrokerUserUnknown: Rule(
        404, "broker_user_unknown", "No such broker user", "Use a name of the list of broker users."
    ),
    AlertRuleUnknown: Rule(404, "alert_rule_unknown", "No such rule", "Use an id from the list of rules."),
    SilenceUnknown: Rule(404, "silence_unknown", "No such silence", "Use an id from the list of silences."),
    CheckAddressTaken: Rule(409, "check_address_taken", "Address taken", "Change or remove the existing one."),
    RedisUnavailable: Rule(
        503, "redis_unavailable", "Redis unavailable", "Try again; check ESCAPEMENT_REDISSON_URL.", 2
    ),
    TokenLimited: Rule(429, "token_limited", "Too many requests of this token", "Send fewer per second, or wait.", 1),
    TooManyRequests: Rule(429, "too_many_requests", "Too many requests", "Wait for answers before sending more.", 1),
    PoliciesUnreadable: Rule(
        503, "policies_unreadable", "Policies unreadable", "Try again; nothing was done. Check the broker.", 2
    ),
    TokensUnreadable: Rule(503, "tokens_unreadable", "Tokens unreadable", "Try again; check the database.", 2),
    Unexpected: Rule(
        500, "internal_error", "Internal error", "Try again; if it persists, check the log of the web process."
    ),
    client.NoSuchQueue: Rule(
        400, "queue_not_found", "No such queue", "Send to an existing queue of the topic, or name none."
    ),
    InvalidFilter: INVALID_FILTER,
    NotThisEvent: Rule(400, "not_this_event", "Another event", "Ask for the event that the message is."),
    client.InvalidArgument: Rule(400, "invalid_message", "Invalid message", "Correct the field that is named."),
    HalfNotSafe: Rule(
        503, "half_not_safe", "Half message not safe", "Try again; check the broker's disk and slave.", 1
    ),
    PlainSendRefused: Rule(409, "plain_send", "Inside a transaction", "Send with the producer of the block."),
    client.NoBroker: Rule(503, "no_broker", "No broker", "Try again when a broker runs; nothing was done.", 1),
    client.RouteNotFound: Rule(404, "topic_not_found", "Topic not found", "Create the topic, or check its name."),
    client.NotWritable: Rule(403, "topic_not_writable", "No permission", "Check the topic's permission."),
    client.NotSupported: Rule(501, "not_supported", "Not supported", "This broker does not support the request."),
    client.ScheduleKeyTaken: Rule(
        409, "schedule_key_taken", "Schedule key taken", "Send with on_conflict=replace or keep, or use another key."
    ),
    client.UsedAfterFork: Rule(
        500, "used_after_fork", "Client of another process", "Report it with the log of the web process."
    ),
    client.NotHeld: Rule(409, "not_held", "No longer held", "Receive it again."),
    client.TimerTooFar: Rule(422, "too_far", "Time too far ahead", "Choose an earlier time; the detail has the limit."),
    client.TimerPast: Rule(422, "moment_past", "Time is past", "Choose a later one, or leave reject_past out."),
    client.TimerLimit: Rule(
        429, "timer_limit", "Too many timers", "Wait until some are due, or choose another time.", 5
    ),
    client.BrokerUnreachable: Rule(
        503, "broker_unreachable", "Broker unreachable", "Try again; the message may be stored, compare its key.", 1
    ),
    client.Timeout: Rule(
        504, "broker_timeout", "Broker timeout", "The message may be stored; compare its key before sending again.", 1
    ),
    client.ClientClosed: Rule(503, "stopping", "Stopping", "This server is stopping; try again.", 1),
    client.BadAnswer: Rule(502, "bad_answer", "Unreadable answer", "Check the version of the broker."),
    client.BrokerRefused: Rule(502, "broker_refused", "Broker refused", "The detail has the broker's own words."),
}

#: Refusals of the broker that mean something particular (ResponseCode of 5.5.0); others take BrokerRefused's rule.
REFUSALS: dict[int, Rule] = {
    Answer.SYSTEM_ERROR: Rule(502, "broker_error", "Broker error", "Try again; check the broker's log.", 1),
    Answer.SYSTEM_BUSY: Rule(503, "broker_busy", "Broker busy", "Send more slowly.", 1),
    Answer.MESSAGE_ILLEGAL: Rule(400, "message_illegal", "Message refused", "Correct what the detail names."),
    Answer.SERVICE_NOT_AVAILABLE: Rule(503, "broker_unavailable", "Broker unavailable", "Try again later.", 5),
    Answer.NO_PERMISSION: Rule(403, "topic_not_writable", "No permission", "Check the topic's permission."),
    Answer.TOPIC_NOT_EXIST: Rule(404, "topic_not_found", "Topic not found", "Create the topic, or check its name."),
    Answer.SUBSCRIPTION_PARSE_FAILED: INVALID_FILTER,
    Answer.QUERY_NOT_FOUND: Rule(404, "message_not_found", "Not found", "It may have passed its retention time."),
    Answer.SUBSCRIPTION_GROUP_NOT_EXIST: Rule(404, "group_not_found", "Group not found", "Check the group's name."),
    Answer.ILLEGAL_OPERATION: Rule(
        409, "decided_otherwise", "Decided otherwise", "It is final; the detail says by whom."
    ),
    Answer.INVALID_PARAMETER: Rule(400, "invalid_parameter", "Invalid parameter", "Correct what the detail names."),
}
DISK_FULL = Rule(507, "disk_full", "Disk full", "Free space on the broker's disk; sends resume by themselves.", 10)


class Problem(msgspec.Struct, omit_defaults=True):
    """A problem+json body (RFC 9457). `field` names the part of the request that is wrong, where there is one; `due_ms`
    and `delivered_ms` say what is known of the timer in the way, ms since 1970."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    remedy: str
    field: str | None = None
    due_ms: int | None = None
    delivered_ms: int | None = None
    waiting: dict[str, int | None] | None = None


def rule_for(error: Exception) -> Rule:
    """Return the rule of an error, Unexpected's for one without a rule."""
    if isinstance(error, client.BrokerRefused):
        if error.code == Answer.SERVICE_NOT_AVAILABLE and any(words in error.remark for words in DISK_FULL_WORDS):
            return DISK_FULL
        particular = REFUSALS.get(error.code)
        if particular is not None and type(error) is client.BrokerRefused:
            return particular
    for kind in type(error).__mro__:
        rule = RULES.get(kind)
        if rule is not None:
            return rule
    return RULES[Unexpected]


def problem_for(error: Exception) -> tuple[Rule, Problem]:
    """Return the rule and the body for an error. One that was not foreseen tells nothing about the inside."""
    rule = rule_for(error)
    known = isinstance(error, RequestError | client.ClientError)
    detail = str(error) if known else str(Unexpected())
    about = {
        name: getattr(error, name, None) if known else None for name in ("field", "due_ms", "delivered_ms", "waiting")
    }
    if isinstance(error, client.NoSuchQueue):
        about["field"] = "queue"  # as requests here name it
    return rule, Problem(f"/api/docs#{rule.code}", rule.title, rule.status, rule.code, detail, rule.remedy, **about)
