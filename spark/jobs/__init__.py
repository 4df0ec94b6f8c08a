"""The dashboards, one file each: a pure function from the frames of a log to points. ``JOBS`` names them in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame

from spark.points import Question
from spark.view import View

from .cancellations import cancellations
from .flow import flow
from .keys import keys
from .lateness import lateness
from .ledger import ledger
from .pending import pending
from .retries import retries
from .storage import storage
from .transactions import transactions

Job = Callable[[View, Question], DataFrame]

JOBS: Mapping[str, Job] = {
    job.__name__: job for job in (flow, lateness, pending, cancellations, transactions, retries, keys, storage, ledger)
}
