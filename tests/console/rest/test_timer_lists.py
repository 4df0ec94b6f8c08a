"""What waits, by REST: the list, the wheel, the forecast, figures."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.console.rest.sending_timers import HOUR_MS, TEN_YEARS_MS, now_ms, send


async def test_the_list_is_in_order_filtered_and_in_pages(api: httpx.AsyncClient) -> None:
    for number in range(7):
        await send(api, delay_ms=HOUR_MS * (7 - number), body=str(number), keys=[f"k{number}"])
    await api.post("/api/v1/topics/other/messages", json={"body": "x", "delay_ms": HOUR_MS})
    everything: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(9):
        page = (
            await api.get(
                "/api/v1/timers", params={"limit": 3, "topic": "orders", **({"cursor": cursor} if cursor else {})}
            )
        ).json()
        everything += page["timers"]
        cursor = page["cursor"]
        if cursor is None:
            break
    assert cursor is None
    assert [each["keys"] for each in everything] == [[f"k{number}"] for number in reversed(range(7))]
    assert [each["due_ms"] for each in everything] == sorted(each["due_ms"] for each in everything)
    one = (await api.get("/api/v1/timers", params={"key": "k3"})).json()["timers"]
    assert [each["keys"] for each in one] == [["k3"]]
    bounds = {"from": everything[2]["due_ms"], "to": everything[4]["due_ms"], "topic": "orders"}
    assert len((await api.get("/api/v1/timers", params=bounds)).json()["timers"]) == 2
    assert len((await api.get("/api/v1/timers")).json()["timers"]) == 8


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("timers?from=2027-01-31T08:00:00", 422, "zone_missing"), ("timers?limit=0", 400, "invalid_parameter"),
        ("timers?limit=1001", 400, "invalid_parameter"), ("timers?what=1", 400, "invalid_parameter"),
        ("timers?cursor=nonsense", 400, "invalid_parameter"), ("timers?topic=a/b", 400, "invalid_message"),
        ("timers/wheel?step_ms=5", 400, "invalid_parameter"), ("timers/forecast?from=5&to=5", 400, "invalid_parameter"),
        ("timers/wheel?from=0&to=9000000000&step_ms=1000", 400, "invalid_parameter"),
        ("timers?from=5&to=1", 400, "invalid_parameter"), ("timers?from=5&to=5", 400, "invalid_parameter"),
        ("timers?from=1&from=2", 400, "invalid_parameter"), ("timers?key=", 400, "invalid_parameter"),
    ],
)  # fmt: skip
async def test_questions_that_make_no_sense_are_refused(
    api: httpx.AsyncClient, path: str, status: int, code: str
) -> None:
    answer = await api.get(f"/api/v1/{path}")
    assert (answer.status_code, answer.json()["code"]) == (status, code)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("-1", "from -1 is not valid: milliseconds since 1970"), (str(2**63), f"from {2**63} is not valid"),
        ("1" * 40, "is not valid"), ("1e3", "from '1e3' is not a time"),
    ],
)  # fmt: skip
async def test_a_number_in_an_address_that_is_no_moment_is_told_as_one(
    api: httpx.AsyncClient, given: str, words: str
) -> None:
    answer = await api.get("/api/v1/timers", params={"from": given})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_moment")
    assert words in answer.json()["detail"]
    assert "quotes" not in answer.json()["detail"]


async def test_wheel_forecast_and_figures_count_what_waits(api: httpx.AsyncClient) -> None:
    at_ms = now_ms() // HOUR_MS * HOUR_MS + 2 * HOUR_MS
    for offset_ms in (0, 1, 58_999, 60_000):
        await send(api, delay_ms=None, deliver_at=at_ms + offset_ms)
    params = {"from": at_ms, "to": at_ms + HOUR_MS, "step_ms": 60_000}
    forecast = (await api.get("/api/v1/timers/forecast", params=params)).json()
    assert [(each["start_ms"], each["count"]) for each in forecast["buckets"]] == [(at_ms, 3), (at_ms + 60_000, 1)]
    wheel = (await api.get("/api/v1/timers/wheel", params=params)).json()
    assert sum(each["count"] for each in wheel["buckets"]) == 4
    assert (wheel["pending"], wheel["paused"]) == (4, False)
    status = (await api.get("/api/v1/timers/status")).json()
    assert (status["pending"], status["next_due_ms"], status["early_total"]) == (4, at_ms, 0)
    assert status["max_delay_ms"] >= TEN_YEARS_MS - 24 * HOUR_MS
