"""The message broker: engine, remoting protocol, Celery host, Python client and the mirror rows."""
