"""Proper answers, and answers that must not be believed."""

from __future__ import annotations

from broker.client import Message
from console.features.checkback.models import make_secret, new_salt
from console.features.checkback.request import sign_answer, sign_question
from tests.console.checkback.server import Question, Speech, decided, http

SECRET = make_secret("shop", new_salt())


def agree(decision: str) -> Speech:
    async def speak(asked: Question) -> bytes:
        return decided(asked, SECRET, decision)

    return speak


def forged(asked: Question) -> dict[str, bytes]:
    """Answers that say COMMIT and must not be believed."""
    nonce, body = asked.headers["escapement-nonce"], b'{"decision": "COMMIT"}'
    right = sign_answer(SECRET, nonce, body)

    def signed(body: bytes) -> bytes:
        return http(body, Escapement_Signature=sign_answer(SECRET, nonce, body))

    return {
        "unsigned": http(body),
        "another secret": http(body, Escapement_Signature=sign_answer("chk_x", nonce, body)),
        "another question": http(body, Escapement_Signature=sign_answer(SECRET, "n", body)),
        "another body": http(b'{"decision":"COMMIT"}', Escapement_Signature=right),
        "the question's own": http(body, Escapement_Signature=asked.headers["escapement-signature"]),
        "signed as a question": http(body, Escapement_Signature=sign_question(SECRET, "", nonce, body)),
        "not latin": http(body, Escapement_Signature="é" * 64),
        "no decision": signed(b"{}"),
        "another word": signed(b'{"decision": "commit"}'),
        "a number": signed(b'{"decision": 8}'),
        "two names": signed(b'{"decision": "COMMIT", "more": 1}'),
        "twice": signed(b'{"decision": "ROLLBACK", "decision": "COMMIT"}'),
        "a list": signed(b'["COMMIT"]'),
        "text": signed(b'"COMMIT"'),
        "not JSON": signed(b"COMMIT"),
        "not UTF-8": signed(b'{"decision": "\xff"}'),
        "deep": signed(b"[" * 2000),
        "a redirect": http(body, status="302 Found", Location="/", Escapement_Signature=right),
        "an error": http(body, status="500 Oops", Escapement_Signature=right),
        "nothing": b"",
    }


EMPTY = Question("", {"escapement-nonce": "", "escapement-signature": ""}, b"")


def message(**properties: str) -> Message:
    return Message(
        topic="orders", queue_id=0, queue_offset=0, position=0, size=0, body=b"", properties=properties, flag=0,
        sys_flag=0, born_ms=5, born_host=("127.0.0.1", 1), store_ms=6, store_host=("127.0.0.1", 2), reconsume_times=0,
        prepared_position=0,
    )  # fmt: skip
