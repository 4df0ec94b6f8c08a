"""What is RocketMQ's: names, numbers, records, frames, headers, ids. Standard library only."""
