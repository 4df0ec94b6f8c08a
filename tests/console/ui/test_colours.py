"""Lanes, timers and halves have a colour each, told apart from each other, their ground, and from what is wrong."""

from __future__ import annotations

import math
import re
from itertools import combinations
from pathlib import Path

import pytest

STYLES = Path(__file__).resolve().parents[3] / "static" / "css"
KINDS = ("lane", "timer", "half")
#: as WCAG 2.2 asks of graphics (1.4.11), and degrees between two hues
CONTRAST, APART = 3.0, 45.0
Colour = tuple[float, float, float]


def tokens() -> dict[str, tuple[Colour, Colour]]:
    """Each token that is a pair of colours: in light, in dark."""
    said = re.findall(
        r"--([\w-]+): light-dark\(oklch\(([^)]+)\), oklch\(([^)]+)\)\)", (STYLES / "tokens.css").read_text()
    )
    found: dict[str, tuple[Colour, Colour]] = {}
    for name, light, dark in said:
        pair = tuple(tuple(map(float, each.split())) for each in (light, dark) if "/" not in each)
        # the first one is that of every page; those of one kind's pages follow
        if len(pair) == 2:
            found.setdefault(name, pair)  # type: ignore[arg-type]  # two colours of three numbers
    return found


def luminance(colour: Colour) -> float:
    """The relative luminance of a colour in OKLCH, cut to what a screen shows."""
    light, chroma, hue = colour
    a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
    long = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (light - 0.0894841775 * a - 1.2914855480 * b) ** 3
    red = 4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short
    green = -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short
    blue = -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short
    red, green, blue = (min(1.0, max(0.0, each)) for each in (red, green, blue))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Colour, other: Colour) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def apart(one: Colour, other: Colour) -> float:
    between = abs(one[2] - other[2]) % 360
    return min(between, 360 - between)


def test_black_on_white_is_known() -> None:
    assert contrast((0, 0, 0), (1, 0, 0)) == pytest.approx(21, abs=0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_stands_out_from_its_ground(kind: str) -> None:
    known = tokens()
    for look in (0, 1):
        for ground in ("sheet", "ground", "raise"):
            assert contrast(known[kind][look], known[ground][look]) >= CONTRAST, (kind, ground, look)


def test_kinds_are_told_apart_and_are_not_what_is_wrong() -> None:
    known = tokens()
    for look in (0, 1):
        for one, other in combinations(KINDS, 2):
            assert apart(known[one][look], known[other][look]) >= APART, (one, other)
        for kind in KINDS:
            for wrong in ("brass-fill", "ruby-fill"):
                assert apart(known[kind][look], known[wrong][look]) >= APART, (kind, wrong)


def test_each_is_said_once() -> None:
    whole = "\n".join(path.read_text() for path in STYLES.glob("*.css"))
    for kind in KINDS:
        assert len(re.findall(rf"--{kind}:", whole)) == 1
        assert f"var(--{kind})" in whole
