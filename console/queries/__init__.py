"""All reads for the pages: counters from the mirror's rows, contents from the broker, each with its evidence."""

from __future__ import annotations

from console.queries.catalogue import topic, topics
from console.queries.clients import client, clients, running
from console.queries.dead_letters import dead_letter_groups, dead_letters
from console.queries.delayed_queues import delayed_queue, delayed_queues
from console.queries.lane_pages import lane
from console.queries.looking_through import messages_through
from console.queries.progress import group, groups
from console.queries.queue_pages import queue_messages
from console.queries.records import message, messages, messages_everywhere, raw_body
from console.queries.schedule import highest_level, lanes
from console.queries.summary import overview
from console.queries.tailing import tail
from console.queries.timers import timer_life, timer_list, timers
from console.queries.transactions import transaction_life, transaction_list, transactions

__all__ = [
    "client",
    "clients",
    "dead_letter_groups",
    "dead_letters",
    "delayed_queue",
    "delayed_queues",
    "group",
    "groups",
    "highest_level",
    "lane",
    "lanes",
    "message",
    "messages",
    "messages_everywhere",
    "messages_through",
    "overview",
    "queue_messages",
    "raw_body",
    "running",
    "tail",
    "timer_life",
    "timer_list",
    "timers",
    "topic",
    "topics",
    "transaction_life",
    "transaction_list",
    "transactions",
]
