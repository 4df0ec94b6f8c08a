"""Users of the brokers' access control, their secrets and their policies."""
