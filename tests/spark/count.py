"""Every dashboard counted slowly in plain Python: what the Spark jobs have to agree with. Each figure is a loop."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from broker.rocketmq.message import Message
from tests.spark.plain import due_ms
from tests.spark.sorting import HALVES, LEVELS, Counted, is_commit, is_parked, is_release, is_sent, is_system, shown

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
SPANS = [0, 1, 10, 100, 1_000, 10_000, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY, 365 * DAY]
NAMES = ["early", "< 1 ms", "< 10 ms", "< 100 ms", "< 1 s", "< 10 s", "< 1 min", "< 10 min", "< 1 h", "< 6 h"]
NAMES += ["< 1 d", "< 7 d", "< 30 d", "< 1 y", ">= 1 y"]

#: (series, topic, label, part, at_ms) -> value
Points = dict[tuple[str, str, str, str, int | None], float]


def span(length_ms: int) -> str:
    return NAMES[sum(length_ms >= bound for bound in SPANS)]


def floor(moment: int, step: int) -> int:
    return moment // step * step


def quantiles(values: dict[tuple[str, str, int | None], list[int]], prefix: str) -> Points:
    points: Points = {}
    for (topic, label, at_ms), found in values.items():
        ordered = sorted(found)
        figures = {"count": len(ordered), "max": ordered[-1]}
        figures |= {f"p{share}": ordered[math.ceil(share * len(ordered) / 100) - 1] for share in (50, 95, 99)}
        points |= {(prefix + name, topic, label, "", at_ms): value for name, value in figures.items()}
    return points


def flow(log: Counted, offsets: Sequence[tuple[str, str, int, int]]) -> Points:
    points: Counter[Any] = Counter()
    for message in log.messages:
        topic, at_ms = shown(message), floor(message.store_ms, MINUTE)
        points["bytes", topic, "", "", at_ms] += message.size
        for series, test in {"sent": is_sent, "released": is_release, "committed": is_commit}.items():
            if test(message):
                points[series, topic, "", "", at_ms] += 1
        if is_sent(message):
            points["producers", topic, message.born_host[0], "", None] += 1
        for name, group, queue_id, offset in offsets:
            here = not is_system(message) and (name, queue_id) == (message.topic, message.queue_id)
            if here and message.queue_offset < offset:
                points["consumed", topic, group, "", at_ms] += 1
    return dict(points)


def lateness(log: Counted) -> Points:
    spans: Counter[Any] = Counter()
    lanes: dict[Any, list[int]] = defaultdict(list)
    hours: dict[Any, list[int]] = defaultdict(list)
    for item in log.items.values():
        due = due_ms(item.message)
        if item.how == "released" and due is not None:
            label = f"level {item.message.properties['DELAY']}" if item.message.topic == LEVELS else "timer"
            late = min(item.ends)[2] - max(due, item.message.store_ms)
            spans["histogram", item.topic, label, span(late), None] += 1
            if "ESC_DUE_MS" in item.message.properties and min(item.ends)[2] < due:
                continue  # delivered because somebody asked for it
            lanes[item.topic, label, None].append(late)
            hours[item.topic, "", floor(min(item.ends)[2], HOUR)].append(late)
    return dict(spans) | quantiles(lanes, "late_") | quantiles(hours, "hour_")


def pending(log: Counted, now: int) -> Points:
    points: Counter[Any] = Counter()
    for item in log.items.values():
        due = due_ms(item.message)
        if item.ends:
            continue
        soon = "unknown" if due is None else "overdue" if due < now else span(due - now)
        points["pending", item.topic, soon, "", None] += 1
        for name, step, ahead in (("minute", MINUTE, HOUR), ("hour", HOUR, 2 * DAY), ("day", DAY, 60 * DAY)):
            if due is not None and 0 <= due - now < ahead:
                points[name, item.topic, "", "", floor(due, step)] += 1
    return dict(points)


def cancellations(log: Counted) -> Points:
    points: Counter[Any] = Counter()
    totals: Counter[str] = Counter()
    for item in log.items.values():
        how, due = item.how or "pending", due_ms(item.message)
        totals[item.topic] += 1
        points["fate", item.topic, how, "", None] += 1
        if how in ("cancelled", "replaced") and due is not None:
            points["before", item.topic, how, span(due - min(item.ends)[2]), None] += 1
    shares: Points = {
        ("share", topic, how, "", None): points["fate", topic, how, "", None] / total
        for topic, total in totals.items()
        for how in ("cancelled", "replaced")
    }
    return {key: value for key, value in points.items() if value} | shares


def transactions(log: Counted) -> Points:
    points: Counter[Any] = Counter()
    took: dict[Any, list[int]] = defaultdict(list)
    for one in log.transactions:
        topic, group = shown(one.halves[0]), one.halves[0].properties.get("PGROUP", "")
        points["outcome", topic, group, one.outcome, None] += 1
        points["checked", topic, str(one.checks), "", None] += 1
        if one.checks:
            points["checks", topic, group, "", None] += one.checks
        if one.decided:
            took[topic, group, None].append(min(one.decided) - min(half.store_ms for half in one.halves))
    return dict(points) | quantiles(took, "decide_")


def retries(log: Counted) -> Points:
    points: Counter[Any] = Counter()
    born: dict[Any, list[Message]] = defaultdict(list)
    dead = set()
    worst: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
    for message in log.messages:
        prefix = next((p for p in ("%RETRY%", "%DLQ%") if message.topic.startswith(p)), None)
        if prefix is None:
            continue
        group, popper = message.topic.removeprefix(prefix), message.properties.get("ORIGIN_GROUP")
        if popper is not None and group.startswith((f"{popper}_", f"{popper}+")):
            group = popper
        identity = message.properties.get("ORIGIN_MESSAGE_ID", message.unique_key or str(message.position))
        key = message.properties.get("KEYS", message.unique_key or "")
        if prefix == "%RETRY%":
            points["attempts", message.topic, group, str(message.reconsume_times), None] += 1
            born[message.topic, group, identity].append(message)
        else:
            points["dead", message.topic, group, "", None] += 1
            dead.add((group, identity))
        if key:
            worst[message.topic, group, key][0] += prefix == "%DLQ%"
            worst[message.topic, group, key][1] += 1
    took: dict[Any, list[int]] = defaultdict(list)
    for (topic, group, identity), found in born.items():
        if (group, identity) not in dead:
            took[topic, group, None].append(max(m.store_ms for m in found) - min(m.born_ms for m in found))
    by_group: dict[Any, list[Any]] = defaultdict(list)
    for (topic, group, key), (died, count) in worst.items():
        by_group[topic, group].append((-died, -count, key))
    for (topic, group), ranked in by_group.items():
        for _, count, key in sorted(ranked)[:20]:
            points["poison", topic, group, key, None] = -count
    return dict(points) | quantiles(took, "again_")


def keys(log: Counted) -> Points:
    seen: dict[tuple[str, str], list[Message]] = defaultdict(list)
    for message in log.messages:
        if not is_system(message) or is_parked(message) or message.topic == HALVES:
            for key in set(message.properties.get("KEYS", "").split(" ")) - {""}:
                seen[shown(message), key].append(message)
    points: Points = {}
    ranked: dict[str, list[Any]] = defaultdict(list)
    by_key: dict[str, list[tuple[Message, str]]] = defaultdict(list)
    for (topic, key), found in seen.items():
        points["reach", topic, "", "", None] = points.get(("reach", topic, "", "", None), 0) + 1
        first = min(m.position for m in found)
        sent = sum(is_sent(m) for m in found)
        if sent:
            ranked[topic].append((-sent, first, key, min(m.store_ms for m in found)))
        by_key[key] += [(m, topic) for m in found]
    for topic, entries in ranked.items():
        for sent, _, key, first_ms in sorted(entries)[:20]:
            points["hot", topic, key, "", first_ms] = -sent
    lives: dict[Any, list[int]] = defaultdict(list)
    for pairs in by_key.values():
        times = [m.store_ms for m, _ in pairs]
        if len(pairs) > 1:
            lives[min(pairs, key=lambda pair: pair[0].position)[1], "", None].append(max(times) - min(times))
    return points | quantiles(lives, "life_")


def storage(log: Counted, segment_size: int, retention_ms: int) -> Points:
    points: Counter[Any] = Counter()
    last: dict[int, int] = defaultdict(int)
    until: dict[int, int] = defaultdict(int)
    undecided = set()
    for message in log.messages:
        segment = floor(message.position, segment_size)
        points["content", shown(message), str(segment), "", None] += message.size
        points["growth", shown(message), "", "", floor(message.store_ms, HOUR)] += message.size
        last[segment] = max(last[segment], message.store_ms + retention_ms)
    waiting = [
        (item.message, item.topic, "level" if item.message.topic == LEVELS else "timer", due_ms(item.message))
        for item in log.items.values()
        if not item.ends
    ]
    open_ones = [one for one in log.transactions if one.outcome in ("open", "stuck")]
    for message, topic, part, due in waiting + [(t.halves[0], shown(t.halves[0]), "half", None) for t in open_ones]:
        segment = floor(message.position, segment_size)
        size = message.size
        if part == "half":
            size = sum(h.size for t in open_ones if t.halves[0] is message for h in t.halves)
        points["held", topic, str(segment), part, None] += 1
        points["held_bytes", topic, str(segment), part, None] += size
        if due is None:
            undecided.add(segment)
        else:
            until[segment] = max(until[segment], due)
    expiry: Points = {}
    for segment, old in last.items():
        at_ms = -1 if segment in undecided else max(old, until[segment])
        expiry["expiry", "", str(segment), "", at_ms] = at_ms
    return dict(points) | expiry


def ledger(log: Counted, now: int, grace_ms: int) -> Points:
    points: Counter[Any] = Counter()
    alarms: Counter[Any] = Counter()
    entered: list[tuple[str, str, int, str, int]] = []
    for item in log.items.values():
        day = floor(item.message.store_ms, DAY)
        entered.append(("scheduled", item.topic, day, item.how or "pending", max(1, len(item.ends))))
        due = due_ms(item.message)
        if len(item.ends) > 1:
            alarms["alarm", item.topic, "", "twice", None] += 1
        elif not item.ends and due is not None and due < now - grace_ms:
            alarms["alarm", item.topic, "", "overdue", None] += 1
    for one in log.transactions:
        topic, day = shown(one.halves[0]), floor(min(half.store_ms for half in one.halves), DAY)
        copies = one.copies if one.outcome == "committed" else 1
        entered.append(("transactions", topic, day, one.outcome, copies))
        if one.said == "c" and not one.copies:
            alarms["alarm", topic, "", "no copy", None] += 1
        elif one.copies > 1:
            alarms["alarm", topic, "", "two copies", None] += 1
    for label, topic, day, how, entries in entered:
        points["accepted", topic, label, "", day] += 1
        points[how, topic, label, "", day] += 1
        points["difference", topic, label, "", day] += 1 - entries
    begin = log.messages[0].position
    by_position = {message.position: message for message in log.messages}
    for source, enders in log.unknown.items():
        if source >= begin:
            alarms["alarm", shown(by_position[min(enders)]), "", "unknown", None] += 1
    return dict(points) | dict(alarms)


def count_all(
    messages: Iterable[Message], now: int, offsets: Sequence[tuple[str, str, int, int]], segment_size: int
) -> dict[str, Points]:
    """Count every dashboard of a log, by its name."""
    log = Counted(messages)
    return {
        "flow": flow(log, offsets),
        "lateness": lateness(log),
        "pending": pending(log, now),
        "cancellations": cancellations(log),
        "transactions": transactions(log),
        "retries": retries(log),
        "keys": keys(log),
        "storage": storage(log, segment_size, 72 * HOUR),
        "ledger": ledger(log, now, MINUTE),
    }


def as_text(points: Points) -> str:
    """Return points as lines that a failing test can show."""
    return "\n".join(sorted(json.dumps([*key, float(value)]) for key, value in points.items()))
