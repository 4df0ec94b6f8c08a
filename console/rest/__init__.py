"""REST at /api/v1: a small ASGI application of its own."""
