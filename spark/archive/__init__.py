"""The archive: closed segments of the log as Parquet, each written once, which stay when the log's own are deleted.

files.py    how it lies on disk, what of a log it continues, what is too old or damaged
writing.py  from segments to files
search.py   messages in it, by any of their names

``python -m spark.archive`` does what one JSON object on standard input says (``__main__.py``).
"""
