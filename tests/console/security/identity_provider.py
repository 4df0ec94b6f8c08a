"""A small OpenID Connect provider on loopback: discovery, keys, tokens for codes (PKCE), information of users."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID, SECRET = "escapement", "a secret of the provider"
#: how soon it notices that it is to end
POLL_S = 0.01
KEY, FORGED_KEY = (RSAKey.generate_key(2048, {"kid": "first", "use": "sig"}) for _ in range(2))


class IdentityProvider(ThreadingHTTPServer):
    """Says who somebody is as a test tells it to. `claims`: of the next token; `told`: the user's information."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.signing_key = KEY
        self.claims: dict[str, Any] = {}
        self.told: dict[str, Any] = {}
        self.is_broken = False
        #: code -> what its browser came with
        self._asked: dict[str, dict[str, str]] = {}

    @property
    def issuer(self) -> str:
        """Its address, which is its name."""
        return f"http://127.0.0.1:{self.server_port}"

    def agree(self, address: str) -> dict[str, str]:
        """What the browser brings back when somebody agreed at this address of the provider."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert (asked["client_id"], asked["code_challenge_method"]) == (CLIENT_ID, "S256")
        code = f"code-{len(self._asked)}"
        self._asked[code] = asked
        return {"code": code, "state": asked["state"]}

    def answer(self, path: str, form: dict[str, str]) -> dict[str, Any] | None:
        """One of its documents; None: no such, or not for this caller."""
        if path == "/.well-known/openid-configuration":
            names = {"authorization": "authorize", "token": "token", "userinfo": "me"}
            ends = {f"{name}_endpoint": f"{self.issuer}/{place}" for name, place in names.items()}
            return {
                "issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys", **ends,
                "id_token_signing_alg_values_supported": ["RS256"],
            }  # fmt: skip
        if path == "/keys":
            return {"keys": [KEY.as_dict(private=False)]}
        return dict(self.told) if path == "/me" else self._token(form) if path == "/token" else None

    def _token(self, form: dict[str, str]) -> dict[str, Any] | None:
        asked = self._asked.pop(form.get("code", ""), None)
        if asked is None or form["redirect_uri"] != asked["redirect_uri"]:
            return None
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == asked["code_challenge"]
        now = int(time.time())
        claims = {
            "iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": asked["nonce"], **self.claims,
        }  # fmt: skip
        signed = jwt.encode({"alg": "RS256", "kid": "first"}, claims, self.signing_key)
        return {"access_token": "for-me", "token_type": "Bearer", "expires_in": 300, "id_token": signed}


class _Handler(BaseHTTPRequestHandler):
    server: IdentityProvider

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._answer({name: values[0] for name, values in parse_qs(body).items()})

    def _answer(self, form: dict[str, str]) -> None:
        found = None if self.server.is_broken else self.server.answer(urlsplit(self.path).path, form)
        body = json.dumps(found if found is not None else {"error": "invalid_grant"}).encode()
        self.send_response(200 if found is not None else 503 if self.server.is_broken else 400)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *about: object) -> None:
        """Nothing."""


@contextmanager
def providing(settings: Any) -> Iterator[IdentityProvider]:
    """One that the console is told to use."""
    with IdentityProvider() as made:
        thread = threading.Thread(target=made.serve_forever, args=(POLL_S,), daemon=True)
        thread.start()
        settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = made.issuer, CLIENT_ID, SECRET
        settings.OIDC_NAME = "Keys & Co"
        yield made
        made.shutdown()
        thread.join()
