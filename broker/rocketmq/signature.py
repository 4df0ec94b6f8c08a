"""The signature that clients of RocketMQ 4.x and 5.x put on every request.

    content   = the values of all header fields but Signature, in the order of their names, then the body
    Signature = base64(HmacSHA1(secret, content))

The fields include AccessKey (the user's name) and, if there is one, SecurityToken. Neither the request's code nor its
number (opaque) nor a time is part of it: that a request was not heard and said again by somebody else, TLS sees to.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Mapping

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105 - the name of a field

#: Clients up to V4_9_3 add this field after they have signed (MQVersion ordinal; UNIQUE_MSG_QUERY_FLAG).
UNSIGNED_FIELD = "_UNIQUE_KEY_QUERY"
LAST_VERSION_WITH_UNSIGNED_FIELD = 399


def content(ext: Mapping[str, str], body: bytes, version: int) -> bytes:
    """Return the bytes that are signed of a request."""
    skipped = {SIGNATURE} if version > LAST_VERSION_WITH_UNSIGNED_FIELD else {SIGNATURE, UNSIGNED_FIELD}
    fields = "".join([ext[name] for name in sorted(ext) if name not in skipped])
    return fields.encode("utf-8", "surrogateescape") + body


def sign(secret: bytes, signed: bytes) -> bytes:
    """Return the signature of a content."""
    return b64encode(hmac.digest(secret, signed, "sha1"))


def is_signed(secret: bytes, signed: bytes, signature: str) -> bool:
    """Tell in constant time whether the signature is that of the content."""
    return hmac.compare_digest(sign(secret, signed), signature.encode("utf-8", "surrogateescape"))
