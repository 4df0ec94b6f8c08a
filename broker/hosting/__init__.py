"""Celery workers that host the broker, the mirror and the transfer of Redisson queues."""
