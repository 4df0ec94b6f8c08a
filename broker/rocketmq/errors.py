"""What can go wrong between two ends of a remoting connection.

RemotingError
├── BadFrame           the bytes are no frame: the connection cannot be read any further
│   └── HeaderRefused  they are one, but its header is not taken: the frames after it are read
├── ConnectFailed      nobody answers at that address
├── ConnectionLost     the connection ended before the answer came
├── RequestTimedOut    no answer within the time allowed
└── RequestRefused     this end refuses or failed a request; carries the response code to answer with
"""

from __future__ import annotations


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
