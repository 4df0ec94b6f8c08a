"""Services that are told of alerts by a POST: one file for the format of each, all listed in `registry.py`."""
