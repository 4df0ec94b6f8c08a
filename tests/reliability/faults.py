"""What is done to a broker, drawn from a seed: the same for every broker.

| kind    | what                                                                                             |
|---------|--------------------------------------------------------------------------------------------------|
| kill    | SIGKILL, and a start                                                                             |
| restart | SIGTERM, and a start                                                                             |
| stop    | SIGSTOP, and SIGCONT after a while                                                               |
| full    | a file takes all that is free on the broker's disk, for a while                                  |
| starved | the same, and a SIGKILL meanwhile; the start comes when there is room again                      |
| slow    | each sync of the broker's disk takes longer, for a while                                         |
| clock   | the broker's clock is set forward or back, and stays so until the next step                      |
| cut     | all connections of clients end, and no new one comes to the broker for a while                   |
| mute    | requests reach the broker and no answer comes back, for a while; then those connections end      |

Two may come together: while a disk is full or slow, the clock another one, or clients cut off, the broker is killed,
started anew, or stands still.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

KINDS = ("kill", "restart", "stop", "full", "starved", "slow", "clock", "cut", "mute")
#: What comes into what lasts, where two come together.
LASTING, COMING = ("full", "slow", "clock", "cut", "mute"), ("kill", "restart", "stop")
#: How the clock is set, in ms from the machine's.
CLOCKS_MS = (-3_600_000, -60_000, -5_000, 5_000, 60_000, 3_600_000)
#: The pause before a fault, and how long it lasts, in seconds.
PAUSE_S = (0.8, 2.5)
LASTS_S = (0.4, 2.5)
#: How much longer a sync takes on a slow disk.
SLOW_MS = (50, 400)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing to do: after a pause, for a while."""

    kind: str
    pause_s: float
    lasts_s: float
    amount_ms: int = 0
    into: Fault | None = None
    """What comes while it lasts, so long after it began."""

    def __str__(self) -> str:
        amount = f" {self.amount_ms:+} ms" if self.amount_ms else ""
        into = "" if self.into is None else f" with {self.into}"
        return f"{self.kind}{amount} for {self.lasts_s:.1f} s{into}"


def drawn(seed: int, count: int, kinds: tuple[str, ...] = KINDS, *, together: bool = False) -> list[Fault]:
    """The faults of a seed; `together`: into what lasts another comes."""
    draws = random.Random(f"faults {seed}")
    found = []
    for _ in range(count):
        kind = draws.choice(kinds)
        pause_s, lasts_s = draws.uniform(*PAUSE_S), draws.uniform(*LASTS_S)
        amount_ms = {"clock": draws.choice(CLOCKS_MS), "slow": draws.randint(*SLOW_MS)}.get(kind, 0)
        into = None
        if together and kind in LASTING:
            into = Fault(draws.choice(COMING), draws.uniform(0, lasts_s), draws.uniform(*LASTS_S))
        found.append(Fault(kind, pause_s, lasts_s, amount_ms, into))
    return found
