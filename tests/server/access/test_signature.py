"""The signature is the one that RocketMQ's AclClientRPCHook computes: made by 5.5.0, checked here."""

from __future__ import annotations

import hmac
from base64 import b64encode

from hypothesis import given
from hypothesis import strategies as st

from broker.client.credentials import Signer
from broker.rocketmq.acl import SIGNATURE, content, is_signed, sign
from broker.rocketmq.frame import encode_fields

SECRET = "s3cret-密"
FIELDS = {
    "a": "producers", "b": "orders", "c": "TBW102", "d": "4", "e": "2", "f": "0", "g": "1795249116470", "h": "0",
    "i": "KEYS\x01k1\x02TAGS\x01café 订单\x02UNIQ_KEY\x01AC1100010001\x02", "j": "0", "k": "false", "m": "false",
}  # fmt: skip
BODY = "a bé".encode()
#: What the Java hook wrote for these fields, this body and user alice.
OF_JAVA = "mcCua8W2TYEDAgDiqgurHbd2mK4="


def test_a_send_is_signed_as_java_signs_it() -> None:
    signed = Signer("alice", SECRET).sign(FIELDS, BODY)
    assert signed[SIGNATURE] == OF_JAVA
    assert signed["AccessKey"] == "alice"


@given(st.one_of(st.binary(max_size=80), st.just(b"k" * 64), st.just(b"k" * 65)), st.binary(max_size=300))
def test_it_is_an_hmac_with_sha_1(secret: bytes, signed: bytes) -> None:
    assert sign(secret, signed) == b64encode(hmac.digest(secret, signed, "sha1"))


def test_a_request_without_fields_and_body_is_signed_with_its_security_token() -> None:
    signed = Signer("alice", "s3cret", "token-1").sign({}, b"")
    assert signed == {"AccessKey": "alice", "SecurityToken": "token-1", SIGNATURE: "OQH114ObrbaloUaZNd2K1wIRdiQ="}


def test_encoded_fields_get_the_same_signature() -> None:
    own = encode_fields({"AccessKey": "alice", SIGNATURE: OF_JAVA})
    assert Signer("alice", SECRET).sign_encoded(encode_fields(FIELDS), BODY) == encode_fields(FIELDS) + own


def test_a_signature_counts_for_its_fields_and_its_body_only() -> None:
    ext = {**FIELDS, "AccessKey": "alice"}
    secret = SECRET.encode()
    assert is_signed(secret, content(ext, BODY, 513), OF_JAVA)
    assert not is_signed(secret, content({**ext, "b": "salaries"}, BODY, 513), OF_JAVA)
    assert not is_signed(secret, content(ext, BODY + b".", 513), OF_JAVA)
    assert not is_signed(secret, content({**ext, "x": "more"}, BODY, 513), OF_JAVA)
    assert not is_signed(b"another", content(ext, BODY, 513), OF_JAVA)


def test_clients_up_to_4_9_3_sign_before_they_mark_a_query_by_unique_key() -> None:
    ext = {"topic": "T", "key": "k"}
    signature = sign(b"s", content(ext, b"", 399)).decode()
    marked = {**ext, "_UNIQUE_KEY_QUERY": "true"}
    assert is_signed(b"s", content(marked, b"", 399), signature)
    assert not is_signed(b"s", content(marked, b"", 400), signature)


def test_bytes_that_are_no_text_are_signed_as_they_came() -> None:
    ext = {"a": b"\xff\xfe".decode("utf-8", "surrogateescape")}
    assert content(ext, b"body", 513) == b"\xff\xfebody"
    assert not is_signed(b"s", b"x", "\udcff")
