"""Consume queues and the index: both follow from the log, both lead back into it."""
