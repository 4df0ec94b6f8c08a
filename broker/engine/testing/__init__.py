"""The test kit of the engine: a clock moved by hand, a disk that loses power, an engine driven step by step.

It ships with the engine because the tests of everything above need it too. Read ``simulated.py`` first.
"""

from __future__ import annotations

from .clock import START_MS, ManualClock
from .driver import Driver, open_engine
from .faults import Fault
from .powerloss import SECTOR_BYTES, PowerLoss
from .simulated import SimulatedFiles

__all__ = ["SECTOR_BYTES", "START_MS", "Driver", "Fault", "ManualClock", "PowerLoss", "SimulatedFiles", "open_engine"]
