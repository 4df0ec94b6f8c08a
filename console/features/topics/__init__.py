"""Topics, their queues, and the settings of topics and groups."""
