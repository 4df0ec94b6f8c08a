"""Files that are read from below and written in memory: an engine opens a store on them and changes nothing of it.

    files = UnwrittenFiles(OsFiles())
    engine = Engine.open(config, files, now_ms)      # recovery, repairs and locks stay in memory
    files.close()

What is written again as it was costs no memory; the rest is kept in pages.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..disk import File, Files, Write, directory_of, join, write_each

_PAGE_BYTES = 4096


class _Content:
    """A file as it would be: what is below up to ``below_size``, the pages on top of it, zero elsewhere."""

    def __init__(self, below: File | None) -> None:
        self.below = below
        self.size = self.below_size = below.size() if below is not None else 0
        self._pages: dict[int, bytearray] = {}

    def read(self, size: int, at: int) -> bytes:
        size = max(0, min(size, self.size - at))
        found = bytearray(self._read_below(size, at))
        found.extend(bytes(size - len(found)))
        for number in range(at // _PAGE_BYTES, -(-(at + size) // _PAGE_BYTES)) if self._pages else ():
            page = self._pages.get(number)
            if page is not None:
                first, last = max(at, number * _PAGE_BYTES), min(at + size, (number + 1) * _PAGE_BYTES)
                found[first - at : last - at] = page[first % _PAGE_BYTES : first % _PAGE_BYTES + last - first]
        return bytes(found)

    def write(self, data: bytes | bytearray | memoryview, at: int) -> None:
        end = at + len(data)
        if end <= self.size and self.read(len(data), at) == data:
            return
        self.size = max(self.size, end)
        for number in range(at // _PAGE_BYTES, -(-end // _PAGE_BYTES)):
            start = number * _PAGE_BYTES
            first, last = max(at, start), min(end, start + _PAGE_BYTES)
            self._page(number)[first - start : last - start] = data[first - at : last - at]

    def truncate(self, size: int) -> None:
        for number in [number for number in self._pages if number * _PAGE_BYTES >= size]:
            del self._pages[number]
        if (page := self._pages.get(size // _PAGE_BYTES)) is not None:
            page[size % _PAGE_BYTES :] = bytes(_PAGE_BYTES - size % _PAGE_BYTES)
        self.size, self.below_size = size, min(self.below_size, size)

    def _page(self, number: int) -> bytearray:
        page = self._pages.get(number)
        if page is None:
            page = bytearray(self._read_below(_PAGE_BYTES, number * _PAGE_BYTES))
            page.extend(bytes(_PAGE_BYTES - len(page)))
            self._pages[number] = page
        return page

    def _read_below(self, size: int, at: int) -> bytes:
        size = min(size, self.below_size - at)
        return self.below.read(size, at) if self.below is not None and size > 0 else b""


class _UnwrittenFile:
    """A File whose writes stay in memory."""

    def __init__(self, path: str, content: _Content) -> None:
        self.path = path
        self._content = content

    def read(self, size: int, at: int) -> bytes:
        """Read up to so many bytes from a place, as ``File`` says."""
        return self._content.read(size, at)

    def write(self, data: bytes | bytearray | memoryview, at: int) -> None:
        """Write bytes at a place, as ``File`` says."""
        self._content.write(data, at)

    def write_many(self, parts: list[bytes], at: int) -> None:
        """Write several pieces one after the other, as ``File`` says."""
        self._content.write(b"".join(parts), at)

    def allocate(self, size: int) -> None:
        """Make the file as long as this, as ``File`` says."""
        self._content.size = max(self._content.size, size)

    def truncate(self, size: int) -> None:
        """Change the length of the file, as ``File`` says."""
        self._content.truncate(size)

    def size(self) -> int:
        """Return the length in bytes, as ``File`` says."""
        return self._content.size

    def sync(self) -> None:
        """Nothing of it is to be durable."""

    def drop_cache(self) -> None:
        """What is in memory is all there is."""

    def close(self) -> None:
        """What was written stays until all is closed."""


class UnwrittenFiles:
    """Files on top of others, which stay as they are; ``close`` forgets all that was written."""

    def __init__(self, below: Files) -> None:
        self._below = below
        self._contents: dict[str, _Content] = {}
        self._removed: set[str] = set()
        self._made: set[str] = set()

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file, as ``Files`` says."""
        content = self._contents.get(path)
        if content is None:
            if self._is_gone(path) or not self._below.exists(path):
                if not create:
                    raise FileNotFoundError(path)
                content = _Content(None)
            else:
                content = _Content(self._below.open(path))
            self._contents[path] = content
        return _UnwrittenFile(path, content)

    def list(self, path: str) -> list[str]:
        """List the names in a directory, as ``Files`` says."""
        names = set() if self._is_gone(path) else set(self._below.list(path))
        names = {name for name in names if not self._is_gone(join(path, name))}
        begin = join(path, "")
        names |= {
            made[len(begin) :].partition("/")[0] for made in (*self._contents, *self._made) if made.startswith(begin)
        }
        return sorted(names)

    def exists(self, path: str) -> bool:
        """Tell whether a path exists, as ``Files`` says."""
        if path in self._contents or path in self._made:
            return True
        return not self._is_gone(path) and self._below.exists(path)

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it, as ``Files`` says."""
        self._made.add(path)

    def rename(self, source: str, target: str) -> None:
        """Rename a file, as ``Files`` says."""
        self.open(source)
        self.remove(target)
        self._contents[target] = self._contents.pop(source)
        self._removed.add(source)

    def remove(self, path: str) -> None:
        """Remove a file, as ``Files`` says."""
        content = self._contents.pop(path, None)
        if content is not None and content.below is not None:
            content.below.close()
        self._removed.add(path)

    def remove_directory(self, path: str) -> None:
        """Remove a directory with all in it, as ``Files`` says."""
        for inner in [inner for inner in self._contents if inner.startswith(join(path, ""))]:
            self.remove(inner)
        self._made = {made for made in self._made if made != path and not made.startswith(join(path, ""))}
        self._removed.add(path)

    def sync_directory(self, path: str) -> None:
        """Nothing of it is to be durable."""

    def write_durably(self, writes: Sequence[Write]) -> None:
        """Write into many files and make each durable, as ``Files`` says."""
        write_each(self, writes)

    def used_ratio(self, path: str) -> float:
        """Return how full the disk is, as ``Files`` says."""
        return self._below.used_ratio(path)

    def lock(self, path: str) -> File:
        """Take no lock: who has the store goes on with it."""
        return self.open(path, create=True)

    def close(self) -> None:
        """Close what is open below; closing twice is fine."""
        for content in self._contents.values():
            if content.below is not None:
                content.below.close()
        self._contents.clear()

    def _is_gone(self, path: str) -> bool:
        """Tell whether a path, or a folder that it is in, was removed: what is below no more counts."""
        while path and path not in self._removed:
            above = directory_of(path)
            if above == path:
                return False
            path = above
        return bool(path)
