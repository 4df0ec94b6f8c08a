"""RocketMQ's remoting protocol: frames, the broker's doors (name service and broker) and an asynchronous client.

Reading order: codec (frames), codes (numbers), client (asking), service (answering), processors (one noun a file).
"""

from __future__ import annotations
