"""The REST interface at /api/v1: a small ASGI application beside the pages."""
