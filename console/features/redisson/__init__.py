"""Redisson's delayed queues: what waits in them, who moves it, and what is done with it."""
