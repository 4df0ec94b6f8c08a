"""The small tables of a store, in RocketMQ's JSON files."""
