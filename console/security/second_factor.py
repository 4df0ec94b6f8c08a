"""The second factor: codes of an authenticator (TOTP, RFC 6238: six digits, 30 seconds, SHA-1), and recovery codes.

A code counts in its own 30 seconds, the ones before and the ones behind, and once: the number of its 30 seconds is
kept, and an older one or the same is refused. Guessing is bounded twice: wrong codes count as wrong passwords do (of a
name from an address, of a name, of an address), and so many in a row close the way by codes until a recovery code or an
administrator opens it.

Recovery codes have 80 random bits, so that a plain hash cannot be searched through; each opens once.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from collections.abc import Iterable, Mapping
from hmac import compare_digest
from typing import Any
from urllib.parse import quote

import pyotp
import segno
from django.conf import settings
from django.db import transaction
from django.dispatch import Signal
from django.utils import timezone

from console.security import keys
from console.security.models import RecoveryCode, SecondFactor

logger = logging.getLogger(__name__)

#: how a second step was done
TOTP, RECOVERY = "totp", "recovery"
STEP_S, DIGITS = 30, 6
RECOVERY_CODES = 10
#: wrong codes since the last right one, after which only a recovery code opens: guessing them all takes 300,000 tries
MOST_WRONG = 30
ISSUER = "Escapement"
_ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
_CODE_LENGTH, _PART = 16, 4

#: tells that a second factor was set up, taken away, reset or used up: `user`, `what`
changed = Signal()


def is_on(user: Any) -> bool:
    """Tell whether the person has set up a second factor."""
    return SecondFactor.objects.filter(user=user.pk).exists()


def is_closed(user: Any) -> bool:
    """Tell whether so many wrong codes came that only a recovery code opens."""
    return SecondFactor.objects.filter(user=user.pk, wrong__gte=MOST_WRONG).exists()


def is_demanded(groups: Iterable[str], *, is_superuser: bool) -> bool:
    """Tell whether who is in these groups has to have one; superusers are asked where anybody is."""
    wanted = frozenset(settings.SECOND_FACTOR_ROLES)
    return bool(wanted) and (is_superuser or "*" in wanted or not wanted.isdisjoint(groups))


def new_secret() -> str:
    """Return a new secret: 160 random bits in base 32."""
    return pyotp.random_base32()


def address_of(secret: str, name: str) -> str:
    """Return the otpauth address that an authenticator reads; its label says whose account it is, and where."""
    place = settings.ESCAPEMENT_ENV or ""
    issuer = f"{ISSUER} {place}".strip()
    label = f"{quote(issuer, safe='')}:{quote(name, safe='')}"
    return f"otpauth://totp/{label}?secret={secret}&issuer={quote(issuer, safe='')}"


def drawing_of(text: str) -> Mapping[str, Any]:
    """Return a QR code as one path of an SVG drawing: its `path`, and the `size` of its side in modules."""
    code = segno.make(text, error="m", micro=False)
    rows = [list(row) for row in code.matrix]
    path = "".join(
        f"M{x + 4} {y + 4}h1v1h-1z" for y, row in enumerate(rows) for x, is_dark in enumerate(row) if is_dark
    )
    return {"path": path, "size": len(rows) + 8}


def step_of(secret: str, code: str, now_s: float) -> int | None:
    """Return the number of the 30 seconds whose code this is, of now, before or behind; None: of none of them."""
    totp, now = pyotp.TOTP(secret), int(now_s) // STEP_S
    found = None
    for step in (now - 1, now, now + 1):
        if compare_digest(totp.generate_otp(step), code):
            found = step
    return found


def set_up(user: Any, secret: str, code: str) -> list[str] | None:
    """Set it up if the code is of this secret, and return the recovery codes, which are shown once; None: it is not."""
    step = step_of(secret, plain(code), time.time())
    if step is None:
        return None
    with transaction.atomic():
        SecondFactor.objects.update_or_create(
            user=user,
            defaults={
                "secret": keys.seal(_purpose(user.pk), secret),
                "last_step": step,
                "wrong": 0,
                "confirmed_at": timezone.now(),
            },
        )
        codes = _new_codes(user)
    changed.send(SecondFactor, user=user, what="set_up")
    return codes


def renew_codes(user: Any) -> list[str]:
    """Return new recovery codes, which are shown once; the old ones open nothing any more."""
    with transaction.atomic():
        codes = _new_codes(user)
    changed.send(SecondFactor, user=user, what="renew_codes")
    return codes


def take_away(user: Any, *, what: str = "take_away") -> bool:
    """Forget the secret and the recovery codes; returns whether there were any."""
    with transaction.atomic():
        RecoveryCode.objects.filter(user=user).delete()
        gone, _of_what = SecondFactor.objects.filter(user=user).delete()
    if gone:
        changed.send(SecondFactor, user=user, what=what)
    return bool(gone)


def codes_left(user: Any) -> int:
    """Return how many recovery codes still open."""
    return RecoveryCode.objects.filter(user=user, used_at=None).count()


def verify(user: Any, given: str) -> str:
    """Return how the second step was done with this code, TOTP or RECOVERY; "": it is not right, or came before."""
    code = plain(given)
    if len(code) == DIGITS and code.isascii() and code.isdigit():
        return TOTP if _is_taken(user, code) else ""
    digest = _digest(code)
    if not RecoveryCode.objects.filter(user=user, digest=digest, used_at=None).update(used_at=timezone.now()):
        return ""
    SecondFactor.objects.filter(user=user).update(wrong=0)
    changed.send(SecondFactor, user=user, what="use_code")
    return RECOVERY


def plain(given: str) -> str:
    """Return a code without what people put between its characters."""
    return "".join(each for each in given.upper() if each.isalnum())[:64]


def _is_taken(user: Any, code: str) -> bool:
    """Take a code of the authenticator, once: of two requests with the same one of them comes second."""
    with transaction.atomic():
        row = SecondFactor.objects.select_for_update().filter(user=user).first()
        if row is None or row.wrong >= MOST_WRONG:
            return False
        try:
            secret = keys.unseal(_purpose(row.pk), row.secret)
        except keys.Unreadable:
            logger.error("SECRET_KEY does not open the second factor of account %s: reset it there", row.pk)
            return False
        step = step_of(secret, code, time.time())
        is_right = step is not None and step > row.last_step
        row.last_step, row.wrong = (step, 0) if step is not None and is_right else (row.last_step, row.wrong + 1)
        row.save(update_fields=["last_step", "wrong"])
        return is_right


def renew_seals() -> tuple[int, list[str]]:
    """Seal every secret with the key of today; return how many were not, and the names of whom no key opens."""
    changed_rows, unreadable = 0, []
    with transaction.atomic():
        for row in SecondFactor.objects.select_for_update(of=("self",)).select_related("user").order_by("pk"):
            purpose = _purpose(row.pk)
            if keys.is_of_today(purpose, row.secret):
                continue
            try:
                row.secret = keys.seal(purpose, keys.unseal(purpose, row.secret))
            except keys.Unreadable:
                unreadable.append(str(row.user))
                continue
            row.save(update_fields=["secret"])
            changed_rows += 1
    return changed_rows, unreadable


def _purpose(user_pk: int) -> str:
    return f"second factor {user_pk}"


def _new_codes(user: Any) -> list[str]:
    RecoveryCode.objects.filter(user=user).delete()
    codes = ["".join(secrets.choice(_ALPHABET) for _ in range(_CODE_LENGTH)) for _ in range(RECOVERY_CODES)]
    RecoveryCode.objects.bulk_create(RecoveryCode(user=user, digest=_digest(code)) for code in codes)
    return ["-".join(code[at : at + _PART] for at in range(0, _CODE_LENGTH, _PART)) for code in codes]


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
