"""What Apache RocketMQ does where nobody has set anything else (MessageStoreConfig); so do broker and dashboards."""

from __future__ import annotations

#: ``messageDelayLevel``: the delay of each level, level 1 first.
DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
#: ``fileReservedTime``: how long a segment of the log is kept, in hours.
RETENTION_HOURS = 72
