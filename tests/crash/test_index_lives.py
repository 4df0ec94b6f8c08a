"""An index over many lives: each ends in a power loss somewhere, and the next one writes other entries."""

from __future__ import annotations

import random

import pytest

from broker.engine.fsck.store import check_store
from broker.engine.testing import Driver, ManualClock, PowerLoss, SimulatedFiles, open_engine

LIVES = 6


class Lives:
    """One course, drawn from a seed. ``known``: positions of what was acknowledged, by key."""

    def __init__(self, seed: int) -> None:
        self.draws = random.Random(seed)
        self.clock = ManualClock()
        self.disk = SimulatedFiles()
        self.known: dict[str, int] = {}
        self._number = 0

    def run(self) -> None:
        for _ in range(LIVES):
            driver = open_engine(self.disk, clock=self.clock)
            driver.engine.topics.ensure("orders", 1)
            self.check(driver)
            if self.draws.random() < 0.2:
                driver.close()
                self.judge("after a clean stop")
                driver = open_engine(self.disk, clock=self.clock)
            self.disk, self.known = self.live(driver)
            self.judge("where the power failed")

    def check(self, driver: Driver) -> None:
        """Every key is found."""
        self.judge("after the start")
        for key, position in self.known.items():
            found = driver.engine.find("orders", key, begin_ms=0, end_ms=1 << 60, max_count=4, now_ms=0)
            assert found == [position], key

    def judge(self, when: str) -> None:
        """What the checkpoint vouches for is right; the log itself may have lost what nobody was promised."""
        damages = [str(damage) for damage in check_store(self.disk, "/store").damages]
        assert [damage for damage in damages if not damage.startswith("/store/commitlog/")] == [], when

    def live(self, driver: Driver) -> tuple[SimulatedFiles, dict[str, int]]:
        """Send and keep up until the power fails; return what is left then, and what was known."""
        left: list[tuple[SimulatedFiles, dict[str, int]]] = []
        boundaries = iter(range(self.draws.randrange(1, 60), -1, -1))
        random_loss = PowerLoss("random", self.draws.randrange(1 << 30))
        loss = self.draws.choice((PowerLoss("kill"), PowerLoss("all"), random_loss))

        def at_boundary() -> None:
            if next(boundaries, None) == 0:
                left.append((self.disk.crash(loss), dict(self.known)))

        self.disk.on_change = at_boundary
        while not left:
            self.step(driver)
        self.disk.on_change = None
        return left[0]

    def step(self, driver: Driver) -> None:
        """Send something, append something that is not written yet, or keep up."""
        self._number += 1
        key, body = f"n{self._number}", b"x" * self.draws.randrange(600)
        action = self.draws.random()
        if action < 0.5:
            self.known[key] = driver.send("orders", body, UNIQ_KEY=key).position
        elif action < 0.8:
            driver.append("orders", body, UNIQ_KEY=key, KEYS="a b")
        else:
            self.clock.advance(6_000)
            driver.upkeep()


def run_lives(seed: int) -> None:
    try:
        Lives(seed).run()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error


def test_what_was_acknowledged_is_found_by_its_key_in_every_life():
    for seed in range(160):
        run_lives(seed)


@pytest.mark.soak
def test_keys_are_found_in_lives_nobody_tried_before():
    """Fresh seeds each time; a failure says which."""
    for _ in range(10_000):
        run_lives(random.randrange(1 << 30))
