"""Clients as `with` blocks: the end of the block closes them."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """For a client with `close`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of connections; twice is fine."""
        raise NotImplementedError


class AsyncClosing:
    """For a client with `async close`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of connections; twice is fine."""
        raise NotImplementedError
