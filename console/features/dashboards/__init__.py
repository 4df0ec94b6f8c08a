"""Dashboards: their rows, and how their runs are started. Spark itself runs in a process of its own (``spark/``)."""
