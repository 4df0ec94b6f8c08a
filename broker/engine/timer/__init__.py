"""Timers: messages parked until a moment of their own, by the wheel of seconds and the timer log behind it.

Read ``service.py`` first; ``state.py`` is the one table that says whether a timer waits.
"""
