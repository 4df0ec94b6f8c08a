"""A process that answers brokers' checks from the database for as long as it runs, and cleans old rows meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from django.db import Error, close_old_connections

from .decisions import clean
from .transaction_block import close_all, producer_of

logger = logging.getLogger(__name__)
CLEAN_EVERY_S = 3600.0


def answer_checks(
    groups: Sequence[str], databases: Sequence[str], is_over: Callable[[float], bool], started: Callable[[], None]
) -> None:
    """Answer for these producer groups, and delete old rows of these databases every hour.

    `is_over` waits for so many seconds, or until it is time to end, and returns whether it is; `started` is called when
    brokers are answered.
    """
    try:
        for group in groups:
            producer_of(group).start()
        started()
        while True:
            for using in databases:
                _clean(using)
            if is_over(CLEAN_EVERY_S):
                return
    finally:
        close_all()


def _clean(using: str) -> None:
    try:
        count = clean(using)
    except Error as error:
        logger.warning("old rows of %s are not cleaned: %s", using, error)
    else:
        if count:
            logger.info("%d old rows of %s deleted", count, using)
    finally:
        close_old_connections()
