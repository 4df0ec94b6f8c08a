"""What is RocketMQ's: names, numbers, records, frames, headers, ids. It uses the standard library and msgspec."""
