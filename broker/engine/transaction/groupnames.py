"""Producer groups as small numbers: a table of a million halves holds each name once."""

from __future__ import annotations


class GroupNames:
    """Producer groups as small numbers, as long as one of their halves is open."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._counts: list[int] = []
        self._free: list[int] = []

    def take(self, name: str) -> int:
        """Return a group's number, one more half of it is open."""
        number = self._numbers.get(name)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._names[number], self._counts[number] = name, 0
            else:
                number = len(self._names)
                self._names.append(name)
                self._counts.append(0)
            self._numbers[name] = number
        self._counts[number] += 1
        return number

    def drop(self, number: int) -> None:
        """One half of a group is no longer open."""
        self._counts[number] -= 1
        if not self._counts[number]:
            del self._numbers[self._names[number]]
            self._free.append(number)

    def number(self, name: str) -> int:
        """Return a group's number, -1 if none of its halves is open."""
        return self._numbers.get(name, -1)

    def names(self) -> list[str]:
        """Return all names by number; of a number that is free some name that was."""
        return list(self._names)

    def count(self, name: str) -> int:
        """Return how many halves of a group are open."""
        number = self._numbers.get(name)
        return 0 if number is None else self._counts[number]

    def name(self, number: int) -> str:
        """Return the name of a group in use."""
        return self._names[number]

    def counts(self) -> dict[str, int]:
        """Return how many halves of each group are open."""
        return {name: self._counts[number] for name, number in self._numbers.items()}
