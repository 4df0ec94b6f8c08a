"""Every error of the REST interface; what HTTP answer each becomes stands in `problems`."""

from __future__ import annotations

from collections.abc import Mapping


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
    """This is no message id."""


class InvalidReceipt(RequestError):
    """This is no receipt of a message."""


class InvalidParameter(RequestError):
    """A query parameter is not valid."""


class HostUnknown(RequestError):
    """The request is addressed to a name that this server does not have."""


class BodyTooLarge(RequestError):
    """The request's body is larger than is taken."""


class BodyTooSlow(RequestError):
    """The request's body did not arrive in time."""


class WrongContentType(RequestError):
    """The body must be sent as application/json."""


class ContentEncoded(RequestError):
    """Encoded (compressed) bodies are not taken."""


class TokenMissing(RequestError):
    """A bearer token is needed: Authorization: Bearer esc_..."""


class TokenInvalid(RequestError):
    """This token is not known, has expired or was revoked."""


class ScopeMissing(RequestError):
    """The token does not allow this action on this topic."""


class PolicyDenies(RequestError):
    """The policies of the user that the token is bound to do not allow this."""


class AddressNotFound(RequestError):
    """There is nothing at this address."""


class MethodNotAllowed(RequestError):
    """This address does not answer to this method."""


class MessageNotFound(RequestError):
    """No message with this id is stored (any more)."""


class TopicUnknown(RequestError):
    """The broker has no such topic."""


class GroupUnknown(RequestError):
    """The broker has no such consumer group."""


class InvalidMoment(RequestError):
    """This is no moment."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


class ZoneMissing(InvalidMoment):
    """A time without a zone may mean any of 38 moments."""


class MomentPast(InvalidMoment):
    """The moment is past, and the request asked to have that refused."""


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
    """This message is not one that can be sent again."""


class IdempotencyKeyUsed(RequestError):
    """This idempotency_key was used for another request."""


class NotKnown(RequestError):
    """It is not known whether it was done."""


class NoOperation(RequestError):
    """There is no operation with this number."""


class OperationRefused(RequestError):
    """The operation cannot be done; nothing was changed."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class TopicHasWaiting(RequestError):
    """Something waits for the topic, and the request does not say what is to become of it."""

    def __init__(self, message: str, waiting: Mapping[str, int | None]) -> None:
        super().__init__(message)
        self.waiting = dict(waiting)


class TooManyMatch(RequestError):
    """More timers match than one operation may touch."""


class CheckAddressUnknown(RequestError):
    """There is no check-back address for this producer group."""


class AlertRuleUnknown(RequestError):
    """There is no alert rule with this number."""


class SilenceUnknown(RequestError):
    """There is no silence with this number, or it is over."""


class CheckAddressTaken(RequestError):
    """The producer group has a check-back address already."""


class RedisUnavailable(RequestError):
    """The Redis server of the delayed queues does not answer."""


class TooManyRequests(RequestError):
    """More messages are under way than are taken at once."""


class TokensUnreadable(RequestError):
    """Tokens cannot be checked now because the database does not answer."""


class PoliciesUnreadable(RequestError):
    """The policies of the user that the token is bound to cannot be read now; nothing was done."""


class Unexpected(RequestError):
    """Something failed that should not; the log has the details."""
