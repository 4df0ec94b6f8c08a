"""The test kit of the engine: a clock moved by hand, a disk that loses power, an engine driven step by step.

It ships with the engine because the tests of everything above need it too. Read ``disk.py`` first.
"""

from __future__ import annotations

from .disk import SECTOR_BYTES, Fault, PowerLoss, SimulatedFiles
from .driver import START_MS, Driver, ManualClock, open_engine

__all__ = ["SECTOR_BYTES", "START_MS", "Driver", "Fault", "ManualClock", "PowerLoss", "SimulatedFiles", "open_engine"]
