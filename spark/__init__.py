"""Dashboards from the commit log: a Spark data source that reads it where it lies, and the jobs on top of it."""
