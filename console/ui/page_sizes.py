"""How many rows a page of a list has, and what stands above them: how many are shown, and what else can be chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.utils.http import urlencode

from console.site.parsing import whole_number

#: what can be chosen, by `rows` in the address
SIZES = (50, 100, 200)


@dataclass(frozen=True, slots=True)
class PageSize:
    """The size of a list's page; `chosen` is empty where it is the list's own."""

    count: int
    chosen: str = ""

    def shown(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the parameters of a page's links with the size."""
        return {**given, **({"rows": self.chosen} if self.chosen else {})}

    def offered(self, given: Mapping[str, Any]) -> list[tuple[int, str, bool]]:
        """Return every size with the address of its first page, and whether it is this one."""
        return [(size, "?" + urlencode({**given, "rows": size}), size == self.count) for size in SIZES]


def size_of(request: HttpRequest, own: int) -> PageSize:
    """Return the size that an address asks for, else the list's own."""
    asked = whole_number(request.GET.get("rows"))
    return PageSize(asked, str(asked)) if asked in SIZES else PageSize(own)
