"""What one peer may ask of a server."""

from __future__ import annotations

from dataclasses import dataclass

from ..rocketmq.frame import MAX_FRAME_BYTES


@dataclass(frozen=True, slots=True)
class Limits:
    """What one peer may ask of the server."""

    max_frame_bytes: int = MAX_FRAME_BYTES
    most_partial_bytes: int = 64 * 1024 * 1024
    """What all connections together may hold of frames that are not whole yet."""
    max_connections: int = 10_000
    """Of one door; all doors together have as many as descriptors allow (places.py)."""
    frame_timeout_ms: int = 30_000
    """A frame that was begun must be whole after this time."""
    idle_timeout_ms: int = 120_000
    """serverChannelMaxIdleTimeSeconds of RocketMQ; clients send a heartbeat every 30 s."""
    write_pause_bytes: int = 4 * 1024 * 1024
    """Above this many bytes waiting to be written, no more requests are read."""
    sweep_interval_ms: int = 3_000
    """How often all connections are looked at: that much later one is closed, at most."""
