"""The lanes of SCHEDULE_TOPIC_XXXX, one a delay level, and what waits on them."""
