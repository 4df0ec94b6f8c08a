"""RocketMQ's formats: names, numbers, records, frames, headers, ids. They need the standard library and msgspec."""
