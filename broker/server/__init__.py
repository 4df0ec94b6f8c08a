"""The broker as clients meet it: RocketMQ's remoting protocol on two ports, those of name service and broker.

Reading order: connection (frames in, answers out), broker (what is started and stopped), processors (one noun a file).
Frames and their numbers are in broker/rocketmq (frame, codes), asking is in broker/client.
"""

from __future__ import annotations
