"""The engine: a message store with the semantics and file formats of Apache RocketMQ.

Pure: standard library only, no clock, no threads, no sockets. Time comes in as ``now_ms``, bytes go
through ``disk.py``. Start reading at ``engine.py``.
"""
