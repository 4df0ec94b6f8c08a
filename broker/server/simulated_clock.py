"""A simulated clock that is written down in the store, so that the next broker goes on where this one stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ..engine.disk.files import Files
from ..engine.log.simulated_clock import note_reached, reached_ms
from .clock import SimulatedClock, Simulation

logger = logging.getLogger(__name__)

NOTE_INTERVAL_S = 1.0
"""How often the moment is written down, twice as far ahead: so much is skipped after a kill, nothing comes again."""


class Simulator:
    """The clock of one store: from where it was left, or from the start that is wanted, whatever is later."""

    def __init__(self, simulation: Simulation, files: Files, root: str, live_clock: Callable[[], int]) -> None:
        reached, wanted = reached_ms(files, root), simulation.start_ms
        if wanted is None:
            wanted = live_clock() if reached is None else reached
        self.clock = SimulatedClock(max(wanted, reached or 0), simulation.speed, simulation.steady_ns)
        self._files = files
        self._root = root
        self._timer: asyncio.TimerHandle | None = None

    def keep(self) -> None:
        """Write the moment down, now and again and again."""
        self._timer = asyncio.get_running_loop().call_later(NOTE_INTERVAL_S, self.keep)
        self._note(self.clock() + round(2_000 * NOTE_INTERVAL_S * self.clock.speed))

    def stop(self, now_ms: int) -> None:
        """Write down the last moment of this broker; nothing is stored after it."""
        if self._timer is not None:
            self._timer.cancel()
            self._note(now_ms)

    def _note(self, moment_ms: int) -> None:
        try:
            note_reached(self._files, self._root, moment_ms)
        except OSError as error:
            logger.error("the simulated clock could not be written down: %s", error)
