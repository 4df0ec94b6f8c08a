"""Handlers of requests, one noun a file; each class says in `handlers()` which request codes it answers."""

from __future__ import annotations
