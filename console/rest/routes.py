"""The routes in the order in which addresses are tried, brought in from the modules that declare them."""

from __future__ import annotations

from importlib import import_module

from console.rest.route import Route, declared

#: The busiest come first. They are named and not imported: `rest` stands below the features.
MODULES = (
    "console.features.messages.rest_send",
    "console.features.groups.rest",
    "console.features.timers.rest_changes",
    "console.features.messages.rest",
    "console.features.transactions.rest_decisions",
    "console.features.transactions.rest",
    "console.features.timers.rest",
    "console.features.schedule.pages",
    "console.features.due.rest",
    "console.rest.operations",
    "console.features.dead_letters.rest",
    "console.features.topics.rest",
    "console.features.messages.rest_descriptors",
    "console.features.brokers.rest",
    "console.features.checkback.rest",
    "console.features.alerts.rest",
    "console.features.overview.rest",
    "console.features.redisson.rest",
    "console.features.access.rest",
    "console.features.people.rest",
)


def _collected() -> tuple[Route, ...]:
    for module in MODULES:
        import_module(module)
    return tuple(sorted(declared, key=_rank))


def _rank(route: Route) -> tuple[bool, int]:
    """Rank addresses that end in a name last: they would take the verb of another address for a part of the name."""
    return route.path.endswith("}"), MODULES.index(route.handler.__module__)


ROUTES = _collected()
