"""Signatures of questions and answers: HMAC-SHA256 with a secret of the address, both ways.

    question   HMAC(secret, "check" LF timestamp LF nonce LF body)
    answer     HMAC(secret, "answer" LF nonce LF body)

The nonce is the question's, so that an answer counts for that question and no other. The secret is not stored: it is
made from Django's SECRET_KEY, the group and a salt of the row, so that a copy of the database signs nothing.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from django.utils.crypto import salted_hmac

TIMESTAMP_HEADER = "Escapement-Timestamp"
NONCE_HEADER = "Escapement-Nonce"
SIGNATURE_HEADER = "Escapement-Signature"
_PURPOSE = "console.features.checkback.secret"


def new_salt() -> str:
    """Return 128 random bits in hex, for a new secret."""
    return secrets.token_hex(16)


def secret_of(group: str, salt: str) -> str:
    """Return the secret of a group's address, by which it knows our questions, and we its answers."""
    raw = salted_hmac(_PURPOSE, f"{group}\n{salt}", algorithm="sha256").digest()
    return "chk_" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def digest(secret: str) -> str:
    """Return the SHA-256 of a secret in hex, by which a change of SECRET_KEY is noticed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def sign_question(secret: str, timestamp: str, nonce: str, body: bytes) -> str:
    """Return the signature of a question in hex."""
    return _sign(secret, f"check\n{timestamp}\n{nonce}\n", body)


def sign_answer(secret: str, nonce: str, body: bytes) -> str:
    """Return the signature of an answer in hex."""
    return _sign(secret, f"answer\n{nonce}\n", body)


def sign_alert(secret: str, timestamp: str, nonce: str, body: bytes) -> str:
    """Return the signature of an alert's webhook in hex."""
    return _sign(secret, f"alert\n{timestamp}\n{nonce}\n", body)


def _sign(secret: str, head: str, body: bytes) -> str:
    return hmac.new(secret.encode(), head.encode() + body, hashlib.sha256).hexdigest()
