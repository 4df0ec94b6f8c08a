"""The archive: closed segments of the log in an open format, kept longer than the log (``spark/archive/``).

asking.py  has a process write to it, count and search
pages.py   the page that searches it, and its columns
"""
