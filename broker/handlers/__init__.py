"""Handlers of messages in Django apps: found in each app's `handlers.py`, run by `manage.py consume`.

>>> from escapement.handlers import consumer
>>> @consumer("orders", group="billing", expression="created || paid")
... def bill(message):
...     Invoice.objects.create(order_id=message.body.decode())

Returning acknowledges the message. An exception has it delivered again later, in growing steps; after the last attempt
it is a dead letter, where the console shows it. Delivery is at least once: a handler may see a message twice.
"""

from __future__ import annotations

from .registry import HandlingError, Registration, consumer, registered

__all__ = ["HandlingError", "Registration", "consumer", "registered"]
