"""Texts that are kept in the database sealed: without SECRET_KEY a copy of the database does not tell them.

    seal    by the key of today
    unseal  by that one or one of SECRET_KEY_FALLBACKS; also a text that was kept before anything was sealed

Each purpose (a kind of secret, and whose it is) has a key of its own, made from SECRET_KEY by HKDF: a sealed text that
is copied to another row opens nothing there. The seal is Fernet: AES-128-CBC with HMAC-SHA256.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

_MARK = "sealed:"


class Unreadable(Exception):
    """The text was sealed with a key that is neither SECRET_KEY nor one of SECRET_KEY_FALLBACKS."""


def secret_keys() -> Iterator[str]:
    """Yield the key of today, and then the ones before it."""
    yield settings.SECRET_KEY
    yield from settings.SECRET_KEY_FALLBACKS


def seal(purpose: str, text: str) -> str:
    """Return the text so that only the key of today opens it, and for this purpose only."""
    return _MARK + _fernet(settings.SECRET_KEY, purpose).encrypt(text.encode()).decode()


def unseal(purpose: str, kept: str) -> str:
    """Return what was sealed for the purpose; a text that is not sealed as it is. Raises Unreadable."""
    if not kept.startswith(_MARK):
        return kept
    try:
        known = MultiFernet([_fernet(key, purpose) for key in secret_keys()])
        return known.decrypt(kept.removeprefix(_MARK).encode()).decode()
    except InvalidToken:
        raise Unreadable(purpose) from None


def is_of_today(purpose: str, kept: str) -> bool:
    """Tell whether a text is sealed, and with the key of today."""
    if not kept.startswith(_MARK):
        return False
    try:
        _fernet(settings.SECRET_KEY, purpose).decrypt(kept.removeprefix(_MARK).encode())
    except InvalidToken:
        return False
    return True


def _fernet(key: str, purpose: str) -> Fernet:
    derived = HKDF(SHA256(), length=32, salt=None, info=b"escapement sealed\n" + purpose.encode())
    return Fernet(base64.urlsafe_b64encode(derived.derive(key.encode())))
