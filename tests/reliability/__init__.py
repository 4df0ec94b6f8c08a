"""Lives of messages under faults: recorded by real clients, judged by a checker that knows nothing of the broker."""
