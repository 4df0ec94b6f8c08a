"""A screenshot with at most 256 colours, as a small PNG: written by hand, since it is three chunks."""

from __future__ import annotations

import base64
import struct
import zlib
from collections import Counter

from playwright.sync_api import Page

COLOURS, FREQUENT = 256, 128
#: the browser's own decoder: width, height, and the pixels as RGBA
_DECODE = """async (data) => {
  const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
  const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
  canvas.drawImage(image, 0, 0);
  const pixels = canvas.getImageData(0, 0, image.width, image.height).data;
  let text = "";
  for (let at = 0; at < pixels.length; at += 32768) {
    text += String.fromCharCode(...pixels.subarray(at, at + 32768));
  }
  return [image.width, image.height, btoa(text)];
}"""


def small(blank: Page, screenshot: bytes) -> bytes:
    """The same picture; `blank` is a page without a policy of its own, whose browser decodes."""
    width, height, text = blank.evaluate(_DECODE, base64.b64encode(screenshot).decode())
    pixels = memoryview(base64.b64decode(text)).cast("I")
    counts = Counter(pixels)
    channels, place = _palette(counts)
    indices = bytes(map(place.__getitem__, pixels))
    rows = b"".join(b"\0" + indices[at : at + width] for at in range(0, width * height, width))
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    colours = b"".join(bytes(each) for each in channels)
    body = (_chunk(b"IHDR", head), _chunk(b"PLTE", colours), _chunk(b"IDAT", zlib.compress(rows, 9)))
    return b"\x89PNG\r\n\x1a\n" + b"".join(body) + _chunk(b"IEND", b"")


def _rgb(colour: int) -> tuple[int, int, int]:
    return colour & 255, colour >> 8 & 255, colour >> 16 & 255


def _palette(counts: Counter[int]) -> tuple[list[tuple[int, int, int]], dict[int, int]]:
    """The most frequent colours, then the ones that are furthest from all of these: a mark has few dots, and its colour
    says something. With them the place of each colour's nearest.
    """
    chosen = [colour for colour, _ in counts.most_common(FREQUENT)]
    channels = [_rgb(colour) for colour in chosen]
    place = {colour: index for index, colour in enumerate(chosen)}
    left = [(colour, _rgb(colour)) for colour in counts if colour not in place]
    nearest = [min((_apart(rgb, each), index) for index, each in enumerate(channels)) for _, rgb in left]
    while left and len(channels) < COLOURS:
        furthest = max(range(len(left)), key=lambda at: nearest[at][0])
        if not nearest[furthest][0]:
            break
        channels.append(left[furthest][1])
        added = channels[-1], len(channels) - 1
        nearest = [min(near, (_apart(rgb, added[0]), added[1])) for near, (_, rgb) in zip(nearest, left, strict=True)]
    place.update((colour, near[1]) for near, (colour, _) in zip(nearest, left, strict=True))
    return channels, place


def _apart(one: tuple[int, int, int], other: tuple[int, int, int]) -> int:
    return (one[0] - other[0]) ** 2 + (one[1] - other[1]) ** 2 + (one[2] - other[2]) ** 2


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
