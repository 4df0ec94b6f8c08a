"""Topics, their queues, and how topics and groups are created, changed and deleted."""
