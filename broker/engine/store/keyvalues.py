"""Named values by namespace, as the name service is asked for them: ``config/kvConfig.json`` in RocketMQ's shape."""

from __future__ import annotations

from typing import Any

from ..disk import atomic, json_file
from ..disk.files import Files

#: Values of all namespaces together: the file is written anew with each change.
MOST_VALUES = 10_000
LONGEST_NAME = 255
LONGEST_VALUE = 65_536
#: Namespaces of the broker's own, which no request may touch.
OWN_PREFIX = "ESCAPEMENT_"


class KeyValues:
    """Owner of ``kvConfig.json``. A change is durable when the call returns."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._table: dict[str, dict[str, str]] = {}
        self._rest: dict[str, Any] = {}

    def load(self) -> bool:
        """Read the file; False if there is none that can be read."""
        return json_file.load(self._files, self._path, self._read) or False

    def _read(self, value: dict[str, Any]) -> bool:
        table = value.pop("configTable", None) or {}
        self._table = {
            str(namespace): {str(key): str(kept) for key, kept in values.items()} for namespace, values in table.items()
        }
        self._rest = value
        return True

    def get(self, namespace: str, key: str) -> str | None:
        """Return a value or None."""
        return self._table.get(namespace, {}).get(key)

    def all(self, namespace: str) -> dict[str, str]:
        """Return the values of a namespace; empty if there is none."""
        return dict(self._table.get(namespace, {}))

    def put(self, namespace: str, key: str, value: str) -> None:
        """Make or change a value. Raises ValueError, OSError."""
        for name in (namespace, key):
            if not 0 < len(name) <= LONGEST_NAME:
                raise ValueError(f"Namespace and key have 1 to {LONGEST_NAME} characters.")
        if len(value) > LONGEST_VALUE:
            raise ValueError(f"A value has at most {LONGEST_VALUE:,} characters.")
        if self.get(namespace, key) is None and sum(map(len, self._table.values())) >= MOST_VALUES:
            raise ValueError(f"There are {MOST_VALUES:,} values already; delete some.")
        self._change({**self._table, namespace: {**self._table.get(namespace, {}), key: value}})

    def delete(self, namespace: str, key: str) -> None:
        """Forget a value; one that is not there is fine. Raises OSError."""
        if self.get(namespace, key) is None:
            return
        left = {name: value for name, value in self._table[namespace].items() if name != key}
        table = {name: values for name, values in self._table.items() if name != namespace}
        self._change({**table, namespace: left} if left else table)

    def _change(self, table: dict[str, dict[str, str]]) -> None:
        atomic.save(self._files, self._path, json_file.dump({**self._rest, "configTable": table}))
        self._table = table
