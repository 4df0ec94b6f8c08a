"""Saved views: a list with its filters under a name, for one person or shared with everybody."""
