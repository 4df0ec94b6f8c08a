"""What a worker hosts can be started and stopped, or cannot be made."""

from __future__ import annotations

import pytest

from broker.hosting.guests import MirrorGuest, TransferGuest
from broker.hosting.servers import EngineGuest, NamesrvGuest
from broker.hosting.worker import Guest
from console.run.guests import CheckbackGuest, TimetableGuest
from console.site.celery import app


def ignore(reason: str) -> None:
    """Take no note of a failure."""


@pytest.mark.parametrize("missing", ["start", "stop"])
def test_a_guest_that_cannot_be_started_or_stopped_is_not_made(missing: str) -> None:
    methods = {name: lambda self: "here" for name in ("start", "stop") if name != missing}
    unfinished = type("Unfinished", (Guest,), methods)
    with pytest.raises(TypeError, match=missing):
        unfinished(ignore)


@pytest.mark.parametrize(
    "kind",
    [
        lambda failed: EngineGuest("a", failed),
        lambda failed: NamesrvGuest("9877", failed),
        MirrorGuest,
        TransferGuest,
        CheckbackGuest,
        lambda failed: TimetableGuest(failed, app),
    ],
)
def test_each_kind_of_guest_can_be_made(kind: type[Guest]) -> None:
    assert isinstance(kind(ignore), Guest)
