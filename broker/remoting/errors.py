"""What can go wrong between two ends of a remoting connection.

RemotingError
├── BadFrame           the bytes are no frame: the connection cannot be read any further
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
