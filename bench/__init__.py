"""Measurements side by side with Apache RocketMQ 5.5.0: same machine, same run, same client."""
