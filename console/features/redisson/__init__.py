"""Redisson's delayed queues."""
