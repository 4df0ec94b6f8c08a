"""What can go wrong while the log is read for dashboards; each says what to do."""

from __future__ import annotations


class DashboardError(Exception):
    """Parent of all errors of this package."""


class StoreUnreadable(DashboardError):
    """The directory holds no commit log, or one that cannot be read."""


class OptionInvalid(DashboardError):
    """An option of the data source has a value that it cannot have."""


class JavaMissing(DashboardError):
    """Spark needs Java, and there is none."""


class SparkNotStarted(DashboardError):
    """There is no session of Spark on the master that was named."""
