"""Two logs computed in one run, whoever computes: what adds up is the sum, and no log is taken for another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spark.places import place_of, position_at
from spark.question import HOUR_MS, Question
from tests.spark.count import Points
from tests.spark.figures import OFFSETS, Line, points_of
from tests.spark.randomlog import SIZE, RandomLog

#: What is counted a message or a byte; the rest are shares, percentiles, keys that both brokers have, and moments.
NO_SUMS = {"share", "reach", "hot", "expiry"}
NAMES = ("broker-a", "broker-b")


#: Computes all dashboards of logs that are given by their segments; one alone keeps its positions.
Ask = Callable[[Sequence[dict[int, bytes]], Question], dict[str, list[Line]]]


@dataclass(frozen=True, slots=True)
class Two:
    """Two logs with the same positions and the same unique keys, and all points of each alone and of both."""

    logs: tuple[RandomLog, RandomLog]
    alone: list[dict[str, list[Line]]]
    total: dict[str, list[Line]]

    def figures(self, name: str) -> tuple[list[Points], Points]:
        return [points_of(each[name]) for each in self.alone], points_of(self.total[name])


def both_of(*logs: RandomLog) -> Question:
    """What is asked of logs in one run."""
    return Question(
        max(log.now_ms for log in logs),
        [(*row, number) for number in range(len(logs)) for row in OFFSETS],
        [
            (place_of(number, start), len(data))
            for number, log in enumerate(logs)
            for start, data in sorted(log.segments.items())
        ],
        brokers=NAMES,
        retentions_ms=dict.fromkeys(range(len(logs)), HOUR_MS),
    )


def two_logs(ask: Ask) -> Two:
    logs = RandomLog(1).fill(420), RandomLog(7).fill(260)
    assert logs[0].segments.keys() & logs[1].segments.keys()
    both = both_of(*logs)
    alone = [
        ask(
            [log.segments],
            Question(both.as_of_ms, OFFSETS, [(at, len(data)) for at, data in log.segments.items()], HOUR_MS),
        )
        for log in logs
    ]
    return Two(logs, alone, ask([log.segments for log in logs], both))


def the_sum_of_both(two: Two, name: str) -> None:
    alone, total = two.figures(name)
    expected: Counter[tuple[object, ...]] = Counter()
    for broker, points in zip(NAMES, alone, strict=True):
        for (series, topic, label, part, at_ms), value in points.items():
            in_segments = series in ("content", "held", "held_bytes")
            expected[series, topic, f"{broker} {label}" if in_segments else label, part, at_ms] += value
    sums = {key: value for key, value in expected.items() if adds_up(str(key[0]))}
    assert sums or name == "keys"
    assert {key: value for key, value in total.items() if adds_up(key[0])} == sums


def adds_up(series: str) -> bool:
    is_percentile = series.endswith(("_p50", "_p95", "_p99", "_max"))
    return not is_percentile and series not in NO_SUMS and not series.startswith(("again_", "life_"))


def the_latest_of_both(two: Two) -> None:
    alone, total = two.figures("lateness")
    largest: dict[object, float] = {}
    for points in alone:
        for key, value in points.items():
            largest[key] = max(value, largest.get(key, value))
    found = {key: value for key, value in total.items() if key[0] in ("late_max", "hour_max")}
    assert found == {key: value for key, value in largest.items() if key[0] in ("late_max", "hour_max")} != {}


def a_key_of_both_counts_once(two: Two) -> None:
    alone, total = two.figures("keys")
    reach = [{key[1]: value for key, value in points.items() if key[0] == "reach"} for points in (*alone, total)]
    for topic, keys in reach[2].items():
        each = [one.get(topic, 0) for one in reach[:2]]
        assert max(each) <= keys <= sum(each), topic
    assert reach[2]["orders"] < reach[0]["orders"] + reach[1]["orders"]
    busiest = [{key[2]: value for key, value in points.items() if key[:2] == ("hot", "orders")} for points in alone]
    both = {key[2]: value for key, value in total.items() if key[:2] == ("hot", "orders")}
    assert both == Counter(busiest[0]) + Counter(busiest[1])


def positions_are_of_their_own_log(two: Two) -> None:
    """Whatever a point of the total names is what the same point of that broker names, or lies between."""
    for name, points in two.total.items():
        named = [{(line[0], line[1]): set[int]() for line in each[name]} for each in two.alone]
        for number, each in enumerate(two.alone):
            for line in each[name]:
                named[number][line[0], line[1]] |= set(line[6] or ())
        for line in points:
            for place in line[6] or ():
                log, position = position_at(place)
                if name == "storage" or adds_up(line[0]):
                    assert position in named[log][line[0], line[1]], (name, line)


def the_ledger_balances(two: Two) -> None:
    alone, total = two.figures("ledger")
    accepted = [sum(value for key, value in points.items() if key[0] == "accepted") for points in (*alone, total)]
    assert accepted[0] + accepted[1] == accepted[2] > 0
    clean = [{key: value for key, value in points.items() if key[0] == "alarm"} for points in alone]
    assert {key[3] for points in clean for key in points} == {"twice", "unknown", "overdue", "no copy", "two copies"}


def segments_are_named_with_their_broker(two: Two) -> None:
    rows = [line for line in two.total["storage"] if line[0] == "expiry"]
    expected = {
        (f"{broker} {line[2]}", line[5]) for broker, each in zip(NAMES, two.alone, strict=True)
        for line in each["storage"] if line[0] == "expiry"
    }  # fmt: skip
    assert {(line[2], line[5]) for line in rows} == expected
    assert {line[2] for line in rows} >= {"broker-a 0", f"broker-a {SIZE}", "broker-b 0"}
