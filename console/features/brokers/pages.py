"""The page of a broker; where there are several and none is chosen, the list of them."""

from __future__ import annotations

import uuid
from operator import attrgetter

from django.http import HttpRequest
from django.views.decorators.http import require_safe

from console.features.brokers.read import read_chosen
from console.features.brokers.shapes import BROKERS, SETTINGS, BrokerList
from console.ui.export import Answer, page_or_file


@require_safe
def broker(request: HttpRequest) -> Answer:
    """Show the broker that is chosen, or that there is; of several all."""
    data = read_chosen()
    context = {"data": data, "here": "broker", "number": uuid.uuid4()}
    template, table = ("list", BROKERS) if isinstance(data, BrokerList) else ("page", SETTINGS)
    return page_or_file(request, f"brokers/{template}.html", context, table, lambda _: data, rows=attrgetter("rows"))
