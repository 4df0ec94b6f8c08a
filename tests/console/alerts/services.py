"""The services that webhooks are posted to, as far as their documents say: each refuses what it would refuse."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

SECRET = "SEC-of-the-robot"
ROUTING_KEY = "r" * 32
Answer = tuple[int, bytes]


class Service(HTTPServer):
    """A service on this machine: `answer` reads address and body as the real one does."""

    def __init__(self, answer: Callable[[str, Any], Answer]) -> None:
        self.got: list[Any] = []
        self.answered: list[Answer] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:  # noqa: N805 - the library's names
                body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
                self.got.append(body)
                is_json = handler.headers["Content-Type"] == "application/json"
                status, said = answer(handler.path, body) if is_json else (415, b"")
                self.answered.append((status, said))
                handler.send_response(status)
                handler.send_header("Content-Length", str(len(said)))
                handler.end_headers()
                handler.wfile.write(said)

            def log_message(handler, *args: Any) -> None:  # noqa: N805 - so are these
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server_port}"


@contextmanager
def running(answer: Callable[[str, Any], Answer]) -> Iterator[Service]:
    """A service that is asked within."""
    service = Service(answer)
    thread = threading.Thread(target=service.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield service
    finally:
        service.shutdown()
        thread.join()
        service.server_close()


def slack(path: str, body: Any) -> Answer:
    if path != "/services/T0/B0/x":
        return 404, b"no_service"
    blocks = body.get("blocks", [])
    texts = [block["text"] for block in blocks if block["type"] == "header"]
    fields = [field for block in blocks if block["type"] == "section" for field in block["fields"]]
    is_valid = isinstance(body.get("text"), str) and len(texts) == 1 and 0 < len(fields) <= 10
    is_valid = is_valid and texts[0]["type"] == "plain_text" and 0 < len(texts[0]["text"]) <= 150
    is_valid = is_valid and all(each["type"] == "plain_text" and len(each["text"]) <= 2_000 for each in fields)
    return (200, b"ok") if is_valid and "<" not in body["text"] else (400, b"invalid_blocks")


def teams(path: str, body: Any) -> Answer:
    if "sig=" not in path:
        return 401, b'{"error":{"code":"DirectApiAuthorizationRequired"}}'
    (attachment,) = body["attachments"]
    card = attachment["content"]
    is_card = attachment["contentType"] == "application/vnd.microsoft.card.adaptive" and card["type"] == "AdaptiveCard"
    facts = [each for each in card["body"] if each["type"] == "FactSet"]
    is_valid = body["type"] == "message" and is_card and card["version"] <= "1.5" and facts
    is_valid = is_valid and all(set(fact) == {"title", "value"} for fact in facts[0]["facts"])
    return (202, b"") if is_valid else (400, b'{"error":{"code":"TriggerInputSchemaMismatch"}}')


def dingtalk(path: str, body: Any) -> Answer:
    query = parse_qs(urlsplit(path).query)
    if query.get("access_token") != ["t"]:
        return 200, b'{"errcode":300005,"errmsg":"token is not exist"}'
    timestamp = query.get("timestamp", [""])[0]
    signed = hmac.new(SECRET.encode(), f"{timestamp}\n{SECRET}".encode(), hashlib.sha256).digest()
    if len(timestamp) != 13 or query.get("sign") != [base64.b64encode(signed).decode()]:
        return 200, b'{"errcode":310000,"errmsg":"sign not match"}'
    if body["msgtype"] != "text" or not body["text"]["content"]:
        return 200, b'{"errcode":40035,"errmsg":"bad param"}'
    return 200, b'{"errcode":0,"errmsg":"ok"}'


def wecom(path: str, body: Any) -> Answer:
    if parse_qs(urlsplit(path).query).get("key") != ["k"]:
        return 200, b'{"errcode":93000,"errmsg":"invalid webhook url"}'
    if body["msgtype"] != "text" or len(body["text"]["content"].encode()) > 2_048:
        return 200, b'{"errcode":40058,"errmsg":"text.content exceed max length 2048"}'
    return 200, b'{"errcode":0,"errmsg":"ok"}'


def feishu(path: str, body: Any) -> Answer:
    key = f"{body.get('timestamp')}\n{SECRET}".encode()
    sign = base64.b64encode(hmac.new(key, b"", hashlib.sha256).digest()).decode()
    if len(str(body.get("timestamp"))) != 10 or body.get("sign") != sign:
        return 200, b'{"code":19021,"msg":"sign match fail or timestamp is not within one hour from current time"}'
    texts = [body["card"]["header"]["title"], *(f["text"] for f in body["card"]["elements"][0]["fields"])]
    if body["msg_type"] != "interactive" or any(text["tag"] != "plain_text" for text in texts):
        return 200, b'{"code":9499,"msg":"Bad Request","data":{}}'
    return 200, b'{"StatusCode":0,"StatusMessage":"success","code":0,"data":{},"msg":"success"}'


def pagerduty(path: str, body: Any) -> Answer:
    errors = []
    if body.get("routing_key") != ROUTING_KEY:
        errors.append("Invalid routing key")
    if body.get("event_action") not in ("trigger", "resolve") or not 0 < len(body.get("dedup_key", "")) <= 255:
        errors.append("'event_action' and 'dedup_key' are needed")
    if body.get("event_action") == "trigger":
        payload = body.get("payload", {})
        if not payload.get("summary") or not payload.get("source"):
            errors.append("'payload.summary' is missing or blank")
        if payload.get("severity") not in ("critical", "error", "warning", "info"):
            errors.append("'payload.severity' is invalid")
    if errors:
        told = {"status": "invalid event", "message": "Event object is invalid", "errors": errors}
        return 400, json.dumps(told).encode()
    told = {"status": "success", "message": "Event processed", "dedup_key": body["dedup_key"]}
    return 202, json.dumps(told).encode()


#: format -> the service, the path of an address that it knows, its secret, and the path of one that it does not know
SERVICES: dict[str, tuple[Callable[[str, Any], Answer], str, str, str]] = {
    "slack": (slack, "/services/T0/B0/x", "", "/services/T0/B0/y"),
    "teams": (teams, "/workflows/a/triggers/manual/paths/invoke?api-version=2016-06-01&sig=x", "", "/workflows/a"),
    "dingtalk": (dingtalk, "/robot/send?access_token=t", SECRET, "/robot/send?access_token=u"),
    "wecom": (wecom, "/cgi-bin/webhook/send?key=k", "", "/cgi-bin/webhook/send?key=l"),
    "feishu": (feishu, "/open-apis/bot/v2/hook/x", SECRET, ""),
    "pagerduty": (pagerduty, "/v2/enqueue", ROUTING_KEY, ""),
}
