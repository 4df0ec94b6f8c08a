"""Figures of one broker: messages of the last minute, hour and day, rates per second, and times of requests.

`Statistics` counts what came and went, by RocketMQ's names of statistics. A counter notes what it was when a stretch of
time began in which it moved, so that what does not move costs nothing:

    window   stretch   stretches kept
    minute   10 s       6
    hour     10 min     6
    day       1 h      24

`Rates` says how fast numbers that only grow are growing, from samples taken now and then.

`CallTimes` says how long requests take until they are answered, by request and answer: RocketMQ's
`rocketmq_rpc_latency`. Sends of one message are counted where their answers are made (send_reply.py): they go the short
way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from ..engine.errors import TopicNotFound
from ..engine.lateness import LATENCY_BOUNDS_MS, Histogram
from ..engine.tables.topics import Topic
from ..rocketmq.codes import Answer, Request
from ..rocketmq.topics import SYSTEM_PREFIX, SYSTEM_TOPICS
from .slow_requests import Peer, SlowRequests

TOPIC_PUT_NUMS = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE = "TOPIC_PUT_SIZE"
GROUP_GET_NUMS = "GROUP_GET_NUMS"
GROUP_GET_SIZE = "GROUP_GET_SIZE"
SENT_BACK_NUMS = "SNDBCK_PUT_NUMS"
BROKER_PUT_NUMS = "BROKER_PUT_NUMS"
BROKER_GET_NUMS = "BROKER_GET_NUMS"

MOST_COUNTERS = 50_000
"""Pairs of topics and groups, and topics; one more has the oldest forgotten."""

Growth = Callable[[str, int], tuple[int, int]]
"""Of a queue of a topic: its end, and the bytes of all records that it took (both only grow)."""

_QUARTER_MS = 900_000
#: length of a stretch in ms, stretches in the window
_WINDOWS = ((10_000, 6), (600_000, 6), (3_600_000, 24))


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of what was counted in one window of time."""

    count: int
    per_second: float


class Counter:
    """A number that only grows, and what it was when recent stretches of time began."""

    __slots__ = ("_began_ms", "_shortest", "_stretches", "total")

    def __init__(self, now_ms: int) -> None:
        self.total = 0
        self._began_ms = now_ms
        self._shortest = range(0)
        self._stretches: tuple[deque[tuple[int, int]], ...] = tuple(deque(maxlen=size + 1) for _, size in _WINDOWS)

    def add(self, count: int, now_ms: int) -> None:
        """Add to the number, now."""
        if now_ms not in self._shortest:
            self._begin(now_ms)
        self.total += count

    def _begin(self, now_ms: int) -> None:
        """Begin a stretch of the shortest window (or the clock was set), and maybe one of others with it."""
        for (length_ms, _), stretches in zip(_WINDOWS, self._stretches, strict=True):
            stretch = now_ms // length_ms
            if not stretches or stretches[-1][0] != stretch:
                stretches.append((stretch, self.total))
        length_ms = _WINDOWS[0][0]
        start_ms = now_ms - now_ms % length_ms
        self._shortest = range(start_ms, start_ms + length_ms)

    def sums(self, now_ms: int) -> tuple[Sum, Sum, Sum]:
        """Return what was counted in the last minute, hour and day (the stretch that runs included)."""
        return tuple(self._sum(window, now_ms) for window in range(3))  # type: ignore[return-value]  # three of them

    def _sum(self, window: int, now_ms: int) -> Sum:
        length_ms, size = _WINDOWS[window]
        oldest = now_ms // length_ms - size
        counted = next((self.total - total for stretch, total in self._stretches[window] if stretch >= oldest), 0)
        span_ms = min(now_ms - self._began_ms, now_ms - oldest * length_ms)
        return Sum(counted, counted * 1000 / max(span_ms, 1_000))


class Statistics:
    """The counters of one broker, by name of the statistic and key (a topic, or `topic@group`)."""

    def __init__(self, cluster_name: str, now_ms: int) -> None:
        self._cluster_name = cluster_name
        self._counters: dict[tuple[str, str], Counter] = {}
        self._known: dict[tuple[str, int], tuple[int, int]] = {}
        #: queues that became longer and are not counted yet, and when that was noted last
        self._longer: set[tuple[str, int]] = set()
        self._noted_ms = now_ms
        self._growth_of: Growth = lambda _topic, _queue_id: (0, 0)
        self._put = Daily(now_ms)
        self.get = Daily(now_ms)

    def begin(self, topics: Iterable[Topic], growth_of: Growth) -> None:
        """Note how far the queues have come: what comes from here on is counted."""
        self._growth_of = growth_of
        for topic in topics:
            for queue_id in range(max(topic.read_queues, topic.write_queues)):
                self._known[topic.name, queue_id] = growth_of(topic.name, queue_id)

    @property
    def put(self) -> Daily:
        """The messages that came."""
        self.count()
        return self._put

    def arrived(self, queues: Iterable[tuple[str, int]], now_ms: int) -> None:
        """Note queues that became longer: `count` is to follow within a part of a second, so that not every commit
        counts; whatever is asked counts first."""
        self._longer.update(queues)
        self._noted_ms = now_ms

    def count(self) -> None:
        """Count what came into queues that were noted; the broker's own are no messages of its senders."""
        if not self._longer:
            return
        queues, self._longer = self._longer, set()
        now_ms, total = self._noted_ms, 0
        grown: dict[str, tuple[int, int]] = {}
        for key in queues:
            try:
                end, taken_bytes = self._growth_of(*key)
            except TopicNotFound:
                continue
            known_end, known_bytes = self._known.get(key, (0, 0))
            self._known[key] = end, taken_bytes
            if end > known_end:
                count, size_bytes = grown.get(key[0], (0, 0))
                grown[key[0]] = count + end - known_end, size_bytes + taken_bytes - known_bytes
        for topic, (count, size_bytes) in grown.items():
            self._add(TOPIC_PUT_NUMS, topic, count, now_ms)
            self._add(TOPIC_PUT_SIZE, topic, size_bytes, now_ms)
            total += 0 if topic.startswith(SYSTEM_PREFIX) or topic in SYSTEM_TOPICS else count
        if total:
            self._add(BROKER_PUT_NUMS, self._cluster_name, total, now_ms)
            self._put.add(total, now_ms)

    def given(self, group: str, topic: str, count: int, size_bytes: int, now_ms: int) -> None:
        """Count messages that were given to a group, and the bytes of their records."""
        key = f"{topic}@{group}"
        self._add(GROUP_GET_NUMS, key, count, now_ms)
        self._add(GROUP_GET_SIZE, key, size_bytes, now_ms)
        self._add(BROKER_GET_NUMS, self._cluster_name, count, now_ms)
        self.get.add(count, now_ms)

    def sent_back(self, group: str, topic: str, now_ms: int) -> None:
        """Count a message that a consumer gave back."""
        self._add(SENT_BACK_NUMS, f"{topic}@{group}", 1, now_ms)

    def forget_topic(self, topic: str) -> None:
        """Forget a topic that is gone; one of its name begins anew."""
        self.count()
        self._known = {key: known for key, known in self._known.items() if key[0] != topic}
        self._counters = {key: counter for key, counter in self._counters.items() if key[1].partition("@")[0] != topic}

    def sums(self, name: str, key: str, now_ms: int) -> tuple[Sum, Sum, Sum] | None:
        """Return one counter's last minute, hour and day; None if nothing was ever counted."""
        self.count()
        counter = self._counters.get((name, key))
        return counter.sums(now_ms) if counter is not None else None

    def totals(self, name: str) -> Iterator[tuple[str, int]]:
        """Return key and total of all counters of one statistic, since the start (or since one was forgotten)."""
        self.count()
        return ((key, counter.total) for (known, key), counter in list(self._counters.items()) if known == name)

    def per_second(self, name: str, key: str, now_ms: int) -> float:
        """Return the rate of the last minute."""
        sums = self.sums(name, key, now_ms)
        return sums[0].per_second if sums is not None else 0.0

    def _add(self, name: str, key: str, count: int, now_ms: int) -> None:
        counter = self._counters.get((name, key))
        if counter is None:
            if len(self._counters) >= MOST_COUNTERS:
                del self._counters[next(key for key in self._counters if key[1] != self._cluster_name)]
            counter = self._counters[name, key] = Counter(now_ms)
        counter.add(count, now_ms)


class Daily:
    """A total since the start, and what it was at the last two midnights (BrokerStats)."""

    def __init__(self, now_ms: int) -> None:
        self.total = self.yesterday_morning = self.today_morning = 0
        self._day = _day(now_ms)

    def add(self, count: int, now_ms: int) -> None:
        """Add to the total, now."""
        self.look(now_ms)
        self.total += count

    def look(self, now_ms: int) -> None:
        """Note the total where a new day has begun."""
        day = _day(now_ms)
        if day != self._day:
            self.yesterday_morning, self.today_morning, self._day = self.today_morning, self.total, day


def _day(now_ms: int) -> int:
    """Return the days since year 1, in the time zone of the machine."""
    return _day_of_quarter(now_ms // _QUARTER_MS)


@lru_cache(maxsize=4)
def _day_of_quarter(quarter: int) -> int:
    """Return the day of a quarter of an hour: no time zone begins a day, or changes, within one."""
    now_ms = quarter * _QUARTER_MS
    return datetime.fromtimestamp(now_ms / 1000, UTC).astimezone().toordinal()


# Rates of numbers that only grow.

WINDOW_MS = 10_000
MOST_SAMPLES = 64
MOST_SERIES = 20_000


class Rates:
    """The growth per second of named counters over about the last ten seconds."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, ...], deque[tuple[int, int]]] = {}

    def per_second(self, key: tuple[str, ...], total: int, now_ms: int) -> float:
        """Note the counter's value now and return its growth since the oldest sample of the window."""
        if len(self._series) >= MOST_SERIES and key not in self._series:
            self._series.clear()
        samples = self._series.setdefault(key, deque(maxlen=MOST_SAMPLES))
        while len(samples) > 1 and now_ms - samples[1][0] >= WINDOW_MS:
            samples.popleft()
        if samples and total < samples[-1][1]:
            samples.clear()
        if not samples or now_ms - samples[-1][0] >= WINDOW_MS // MOST_SAMPLES:
            samples.append((now_ms, total))
        begin_ms, begin = samples[0]
        return (total - begin) * 1000 / (now_ms - begin_ms) if now_ms > begin_ms else 0.0


# How long requests take.

#: Those that a broker holds until there is something to tell, or that take as long as they take.
_HELD = frozenset((
    Request.PULL_MESSAGE, Request.LITE_PULL_MESSAGE, Request.POP_MESSAGE, Request.NOTIFICATION, Request.GET_CHANGES,
    Request.MEASURE_RELEASES,
))  # fmt: skip
_REQUESTS = {int(code): code.name.lower() for code in Request}
_ANSWERS = {int(code): code.name.lower() for code in Answer}
_UNKNOWN = -1


class CallTimes:
    """Histograms of how long requests took since the start, in ms. Bounds are those of RocketMQ, and some more."""

    def __init__(self, slow: SlowRequests | None = None) -> None:
        self._rows: dict[tuple[int, int, bool], Histogram] = {}
        self._slow = slow or SlowRequests(0)
        self._slow_ms = self._slow.limit_ms

    def answered(
        self, peer: Peer, asked: int, answered: int, asked_ms: int, now_ms: int, *, is_later: bool, count: int = 1
    ) -> None:
        """Count a request with the code `asked` whose answer, of the code `answered`, leaves now, or `is_later` than
        the others of its request's moment; `count`: so many that came together."""
        took_ms = now_ms - asked_ms
        has_waited = is_later and asked in _HELD
        if took_ms >= self._slow_ms and not has_waited:
            names = _REQUESTS.get(asked, "unknown"), _ANSWERS.get(answered, str(answered))
            self._slow.answered(asked, names, now_ms, took_ms, peer, is_later=is_later)
        self._count(asked, answered, took_ms, has_waited, count)

    def _count(self, asked: int, answered: int, took_ms: int, has_waited: bool, count: int) -> None:
        row = self._rows.get((asked, answered, has_waited))
        if row is None:
            # strangers may ask with any code: those that mean nothing share a row
            key = (asked if asked in _REQUESTS else _UNKNOWN, answered, has_waited)
            row = self._rows.setdefault(key, Histogram(LATENCY_BOUNDS_MS))
        row.add(max(took_ms, 0), count)

    def rows(self) -> Iterator[tuple[dict[str, str], Histogram]]:
        """Return labels, by RocketMQ's names, and counts."""
        for (asked, answered, has_waited), counted in self._rows.items():
            yield row_labels(asked, answered, has_waited=has_waited), counted


def row_labels(asked: int, answered: int, *, has_waited: bool = False) -> dict[str, str]:
    """Return the labels of `rocketmq_rpc_latency`, requests and answers by their names."""
    return {
        "protocol_type": "remoting",
        "request_code": _REQUESTS.get(asked, "unknown"),
        "response_code": _ANSWERS.get(answered, str(answered)),
        "is_long_polling": "true" if has_waited else "false",
        "result": "success",
    }
