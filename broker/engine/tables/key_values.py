"""Named values by namespace, as the name service is asked for them: ``config/kvConfig.json`` in RocketMQ's shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...rocketmq.values import byte_count, check_table, check_text
from ..disk import Files
from ..errors import InvalidValue
from . import json_file
from .json_file import Kept

#: Values of all namespaces together: the file is written anew with each change.
MOST_VALUES = 10_000
LONGEST_NAME = 255
LONGEST_VALUE = 65_536
#: Namespaces of the broker's own, which no request may touch.
OWN_PREFIX = "ESCAPEMENT_"


class KeyValues(Kept):
    """Owner of ``kvConfig.json``. A change is durable when the call returns."""

    _memory = ("_table",)

    def __init__(self, files: Files, path: str) -> None:
        super().__init__(files, path)
        self._table: dict[str, dict[str, str]] = {}
        self._rest: dict[str, Any] = {}

    def _read(self, value: dict[str, Any]) -> bool:
        table = value.pop("configTable", None) or {}
        self._table = {
            str(namespace): {str(key): str(kept) for key, kept in values.items()} for namespace, values in table.items()
        }
        self._rest = value
        return True

    def get(self, namespace: str, key: str) -> str | None:
        """Return the value of a key, None without one."""
        return self._table.get(namespace, {}).get(key)

    def all(self, namespace: str) -> dict[str, str]:
        """Return the values of a namespace; empty if there is none."""
        return dict(self._table.get(namespace, {}))

    def put(self, namespace: str, key: str, value: str) -> None:
        """Make or change a value. Raises InvalidValue, OSError; then nothing has changed."""
        check_text("The namespace", namespace, least=1, most=LONGEST_NAME)
        check_text("The key", key, least=1, most=LONGEST_NAME)
        check_text("The value", value, most=LONGEST_VALUE, breaks=True)
        if self.get(namespace, key) is None and sum(map(len, self._table.values())) >= MOST_VALUES:
            raise InvalidValue("The value", f"is one more than allowed: there are {MOST_VALUES:,} already; delete some")
        table = {**self._table, namespace: {**self._table.get(namespace, {}), key: value}}
        size = _size_of(self._table)
        check_table("The table of values", size, _size_of(table) - size, "delete values that nobody needs")
        self._change(table)

    def delete(self, namespace: str, key: str) -> None:
        """Forget a value; one that is not there is fine. Raises OSError."""
        if self.get(namespace, key) is None:
            return
        left = {name: value for name, value in self._table[namespace].items() if name != key}
        table = {name: values for name, values in self._table.items() if name != namespace}
        self._change({**table, namespace: left} if left else table)

    def _change(self, table: dict[str, dict[str, str]]) -> None:
        with self._changing():
            self._table = table

    def _content(self) -> dict[str, Any]:
        return {**self._rest, "configTable": self._table}


def _size_of(table: Mapping[str, Mapping[str, str]]) -> int:
    """Return how many bytes values take in the file, or a little more."""
    return sum(
        byte_count(namespace) + byte_count(key) + byte_count(json_file.row(value)) + len(',\n   "": ')
        for namespace, values in table.items()
        for key, value in values.items()
    )
