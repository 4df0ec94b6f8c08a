"""A queue as a bar with two marks: released up to here, saved up to here."""

from __future__ import annotations

from console.ui.charts.scale import place

WIDTH = 150


def progress_svg(released: float, persisted: float | None) -> str:
    """Shares of the queue, 0 to 1. What waits is never thinner than two units, however long the queue is."""
    done = min(released * WIDTH, WIDTH - 2) if released < 1 else float(WIDTH)
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} 10" aria-hidden="true">',
        f'<rect class="fill-line" x="0" y="3" width="{place(done)}" height="4" rx="1"/>',
    ]
    if done < WIDTH:
        parts.append(f'<rect class="h4" x="{place(done)}" y="3" width="{place(WIDTH - done)}" height="4" rx="1"/>')
    if persisted is not None:
        saved = min(persisted * WIDTH, done)
        x = saved if persisted == released else min(saved, done - 3)
        parts.append(
            f'<path class="line-brass" d="M{place(max(0.75, x - 1.5 if persisted == released else x))} 1.5v7"/>'
        )
    parts.append(f'<path class="now" d="M{place(min(max(done, 0.75), WIDTH - 0.75))} 0v10"/></svg>')
    return "".join(parts)
