"""The test kit of the engine: a clock moved by hand, a disk that loses power, an engine driven step by step.

It ships with the engine because the tests of everything above need it too. Read ``disk.py`` first.
"""

from __future__ import annotations

from .clock import START_MS, ManualClock
from .disk import SECTOR_BYTES, PowerLoss, SimulatedFiles
from .driver import Driver, open_engine
from .faults import Fault

__all__ = ["SECTOR_BYTES", "START_MS", "Driver", "Fault", "ManualClock", "PowerLoss", "SimulatedFiles", "open_engine"]
