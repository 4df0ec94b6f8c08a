"""The lanes of SCHEDULE_TOPIC_XXXX."""
