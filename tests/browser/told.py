"""What pages say beside what the broker knows: for whoever sees all topics, or those of one team."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from broker.client import Admin
from broker.rocketmq.topics import SCHEDULE_TOPIC
from tests.security.scene import GROUPS, OWN

#: figures of a page: each with its name, and whether it stands where the whole broker is told of
FIGURES = """() => [...document.querySelectorAll("main dl.figures > div")].map((figure) => [
  figure.querySelector("dt").textContent.trim(), figure.querySelector("dd").textContent.trim(),
  !!figure.closest(".whole-broker"),
])"""
#: what is wrong with how the whole broker is told from one's own: often, before it, or with acts on nothing
MINGLED = """() => {
  const found = [], headings = [...document.querySelectorAll("main .whole-broker")];
  const chips = [...document.querySelectorAll("main small.chip")].filter((e) => e.textContent === "whole broker");
  const said = headings.length + chips.length;
  if (said > 1) found.push(`says ${said} times that it is of the whole broker`);
  const behind = headings[0] && [...document.querySelectorAll("main dl.figures")].find(
    (e) => !e.closest(".whole-broker") && headings[0].compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING);
  if (behind) found.push("tells of the whole broker before one's own");
  for (const sheet of document.querySelectorAll("main .sheet:has(.empty)"))
    if (/select rows|with actions/.test(sheet.innerText)) found.push(`offers acts on nothing: ${sheet.innerText}`);
  return found;
}"""
#: what its sheets say; nothing is parked, and nothing was released
SAID = "() => [...document.querySelectorAll('main .sheet:not(#parked, #lateness)')].map((e) => e.innerText).join(' ')"
#: what a page says where it has nothing to show: of each team there is something
NOTHING = (
    "No undecided half messages.", "No timer fires here.", "No timer is pending", "No timer matches",
    "No topic has timers.", "No group has undecided half messages.", "Nothing in the topics that you can see.",
    "No topic has messages", "No match",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """So many rows of a list have this word in them."""

    address: str
    word: str
    count: int


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a page; `is_whole`: of the whole broker for everybody, and who sees some topics is told so."""

    address: str
    name: str
    value: int
    is_whole: bool = False


class Broker:
    """What a broker answers about both teams, asked once."""

    def __init__(self, admin: Admin) -> None:
        self.timers = [row.topic for row in admin.timers(0, 2**62).items]
        self.halves = [row.topic for row in admin.transactions("open").items]
        self.held = {topic: self._held(admin, topic) for topic in GROUPS}
        self.letters = {topic: self._held(admin, f"%DLQ%{group}") for topic, group in GROUPS.items()}
        self.lag = {topic: admin.consume_stats(group).lag for topic, group in GROUPS.items()}
        self.on_lanes = self._held(admin, SCHEDULE_TOPIC)

    @staticmethod
    def _held(admin: Admin, topic: str) -> int:
        return sum(queue.max_offset - queue.min_offset for queue in admin.topic_stats(topic).queues)

    def rows(self, *, is_limited: bool) -> Iterator[Row]:
        """The rows of lists that somebody is shown: of what is not seen, none."""
        for topic, group in GROUPS.items():
            share = 0 if is_limited and topic != OWN else 1
            yield Row("/timers/list/", topic, share * self.timers.count(topic))
            yield Row("/transactions/list/", topic, share * self.halves.count(topic))
            yield Row("/topics/", topic, share)
            yield Row("/groups/", group, share)
            if share:
                yield Row(f"/dead-letters/of/{group}/", topic, self.letters[topic])

    def figures(self, *, is_limited: bool) -> Iterator[Figure]:
        """The figures of pages as somebody is to see them."""
        seen = [topic for topic in GROUPS if topic == OWN or not is_limited]
        yield Figure("/", "Timers pending", sum(self.timers.count(topic) for topic in seen))
        yield Figure("/", "Lag in your topics" if is_limited else "Lag of all groups", sum(self.lag[t] for t in seen))
        yield Figure("/", "Pending on delay levels", self.on_lanes, is_whole=True)
        yield Figure("/schedule/", "Pending", self.on_lanes, is_whole=True)
        yield Figure("/timers/", "Pending", len(self.timers), is_whole=True)
        yield Figure("/transactions/", "Undecided", len(self.halves), is_whole=True)
        if is_limited:
            yield Figure("/timers/", "Pending", sum(self.timers.count(topic) for topic in seen))
            yield Figure("/transactions/", "Undecided", sum(self.halves.count(topic) for topic in seen))
        for topic in seen:
            yield Figure(f"/topics/{topic}/", "Messages", self.held[topic])
            yield Figure(f"/groups/{GROUPS[topic]}/", "Lag", self.lag[topic])
            yield Figure(f"/groups/{GROUPS[topic]}/", "Dead letters", self.letters[topic])
