"""The dashboards by subject: each a pure function from the frames of a log to points. ``JOBS`` names them in order.

The description of a function says what each of its series means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from spark.question import Question
from spark.view import View

from .accounts import ledger, storage
from .traffic import flow, keys, retries
from .waiting import cancellations, lateness, pending, transactions

Job = Callable[[View, Question], DataFrame]

JOBS: Mapping[str, Job] = {
    job.__name__: job for job in (flow, lateness, pending, cancellations, transactions, retries, keys, storage, ledger)
}
