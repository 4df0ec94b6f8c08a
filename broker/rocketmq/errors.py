"""The errors of messages, records and frames, as two trees.

BrokerError                 what a broker answers with a code: the engine's own errors (engine/errors.py) belong to it
├── InvalidMessage          the request is wrong; nothing was written
│   ├── InvalidProperties
│   ├── InvalidTopicName
│   ├── InvalidGroupName
│   ├── InvalidValue
│   └── InvalidDelayLevel
└── CorruptRecord           bytes on disk or on the wire do not match their checksum

RemotingError               what can go wrong between two ends of a connection
├── BadFrame                the bytes are no frame: the connection cannot be read any further
│   └── HeaderRefused       they are one, but its header is not taken: the frames after it are read
├── ConnectFailed           nobody answers at that address
├── ConnectionLost          the connection ended before the answer came
├── RequestTimedOut         no answer within the time allowed
└── RequestRefused          this end refuses or failed a request; carries the response code to answer with

Each class docstring is the default message of a BrokerError; fields say what the error is about.
"""

from __future__ import annotations


class BrokerError(Exception):
    """The broker could not do what was asked."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class InvalidMessage(BrokerError):
    """The message is not valid; correct it and send it again."""


class InvalidProperties(InvalidMessage):
    """The properties are not UTF-8 text of the form name \\x01 value \\x02."""


class InvalidTopicName(InvalidMessage):
    """A topic name has 1 to 127 of the characters A-Z a-z 0-9 _ - | %."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Topic name {name[:140]!r} is not valid: 1 to 127 characters of A-Z a-z 0-9 _ - | %.")
        self.name = name


class InvalidGroupName(InvalidMessage):
    """A group name has 1 to 255 of the characters A-Z a-z 0-9 _ - | %."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Group name {name[:260]!r} is not valid: 1 to 255 characters of A-Z a-z 0-9 _ - | %.")
        self.name = name


class InvalidValue(InvalidMessage):
    """A value of a topic, a group or a client is not one that can be kept; nothing was changed."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} {why}. Nothing was changed.")
        self.what = what


class InvalidDelayLevel(InvalidMessage):
    """The property DELAY is a whole number, 0 or more."""

    def __init__(self, value: str) -> None:
        super().__init__(f"Delay level {value[:40]!r} is not valid: a whole number from 0 (no delay) upwards.")
        self.value = value


class CorruptRecord(BrokerError):
    """The bytes at this position do not match their checksum."""

    def __init__(self, position: int, why: str) -> None:
        super().__init__(
            f"The record at position {position:,} is damaged ({why}); run `manage.py fsck` for a full list."
        )
        self.position = position
        self.why = why


class RemotingError(Exception):
    """Something went wrong between two ends of a remoting connection."""


class BadFrame(RemotingError):
    """The bytes received are no remoting frame: the connection must be closed."""


class HeaderRefused(BadFrame):
    """A header that is not taken: too long, too many fields, no text.

    `opaque` is the request's number if it wants an answer, `serialization` is its header's. `is_final`: the connection
    is to be closed, there is nobody to answer.
    """

    def __init__(self, reason: str, serialization: int, opaque: int | None, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.serialization = serialization
        self.opaque = opaque
        self.is_final = is_final


class ConnectFailed(RemotingError):
    """No connection to the address: is the broker running there?"""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"cannot connect to {address}: {reason}")
        self.address = address


class ConnectionLost(RemotingError):
    """The connection ended before the answer came: the request may or may not have been carried out."""

    def __init__(self, address: str) -> None:
        super().__init__(f"the connection to {address} ended before the answer came")
        self.address = address


class RequestTimedOut(RemotingError):
    """No answer within the time allowed: the request may or may not have been carried out."""

    def __init__(self, address: str, code: int, timeout_ms: int) -> None:
        super().__init__(f"no answer from {address} to request {code} within {timeout_ms} ms")
        self.address = address
        self.code = code
        self.timeout_ms = timeout_ms


class RequestRefused(RemotingError):
    """A request is answered with an error: response code and remark."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
