"""Timers: the wheel, the list, the life of one, and what is done with them."""
