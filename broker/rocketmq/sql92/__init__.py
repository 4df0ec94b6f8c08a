"""SQL92 filters over the properties of messages, with the results of Apache RocketMQ 5.5.0.

grammar (text -> node) over nodes (meaning of each form) over values (Java's conversions and comparisons) and tokens.
"""
