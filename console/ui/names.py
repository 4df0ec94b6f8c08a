"""Names in addresses: whatever a client called a topic or a group, its page has an address that leads back to it."""

from __future__ import annotations

from django.urls.converters import StringConverter

#: The mark itself, what would end a part of an address, or be taken for a step in it. No name of RocketMQ holds any.
_HIDDEN = {"~": "~7E", "/": "~2F", ".": "~2E"}


class Name(StringConverter):
    """``<name:...>``: one part of an address. ``~`` alone is the empty name."""

    def to_python(self, value: str) -> str:
        """Return the name that a part of an address stands for."""
        if value == "~":
            return ""
        for character, hidden in reversed(_HIDDEN.items()):
            value = value.replace(hidden, character)
        return value

    def to_url(self, value: str) -> str:
        """Return the part of an address that stands for a name."""
        value = str(value)
        for character, hidden in _HIDDEN.items():
            if character != "." or value in (".", ".."):
                value = value.replace(character, hidden)
        return value or "~"
