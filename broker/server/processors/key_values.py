"""Values that are kept for whoever asks the name service: 100, 101, 102, 219."""

from __future__ import annotations

from collections.abc import Mapping

from ...engine.tables.key_values import OWN_PREFIX
from ...rocketmq.codes import Answer, Request
from ...rocketmq.errors import RequestRefused
from ...rocketmq.fields import text
from ...rocketmq.frame import Command
from ...rocketmq.json_body import json_body
from ..connection import Connection, Handler
from ..state import BrokerState


class KeyValueProcessor:
    """Reads and writes them; namespaces of the broker's own are nobody's business."""

    def __init__(self, state: BrokerState) -> None:
        self._values = state.engine.key_values

    def handlers(self) -> Mapping[int, Handler]:
        """Request code -> handler."""
        return {
            Request.PUT_KV_CONFIG: self._put,
            Request.GET_KV_CONFIG: self._get,
            Request.DELETE_KV_CONFIG: self._delete,
            Request.GET_KVLIST_BY_NAMESPACE: self._all,
        }

    def _put(self, _: Connection, request: Command) -> Command:
        namespace, key, value = (text(request.ext, name) for name in ("namespace", "key", "value"))
        _refuse_own(namespace)
        self._values.put(namespace, key, value)
        return request.answer()

    def _get(self, _: Connection, request: Command) -> Command:
        namespace, key = text(request.ext, "namespace"), text(request.ext, "key")
        value = None if namespace.startswith(OWN_PREFIX) else self._values.get(namespace, key)
        if value is None:
            raise RequestRefused(Answer.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace} Key: {key}")
        return request.answer({"value": value})

    def _delete(self, _: Connection, request: Command) -> Command:
        namespace, key = text(request.ext, "namespace"), text(request.ext, "key")
        _refuse_own(namespace)
        self._values.delete(namespace, key)
        return request.answer()

    def _all(self, _: Connection, request: Command) -> Command:
        namespace = text(request.ext, "namespace")
        values = {} if namespace.startswith(OWN_PREFIX) else self._values.all(namespace)
        if not values:
            raise RequestRefused(Answer.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
        return request.answer(body=json_body({"table": values}))


def _refuse_own(namespace: str) -> None:
    if namespace.startswith(OWN_PREFIX):
        raise RequestRefused(Answer.INVALID_PARAMETER, f"Namespaces that begin with {OWN_PREFIX} are the broker's own.")
