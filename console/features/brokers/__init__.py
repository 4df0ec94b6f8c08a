"""The brokers themselves: what they are, how they are set, how full they are, and changes of their settings."""
