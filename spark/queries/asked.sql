-- What a dashboard is asked beside the log (spark/question.py), as tables that Answers fills.

CREATE TEMP TABLE offsets (topic VARCHAR, consumer VARCHAR, queue_id INTEGER, next_offset BIGINT, log INTEGER);
CREATE TEMP TABLE segments (start BIGINT, size BIGINT);
CREATE TEMP TABLE retentions (log INTEGER, kept_ms BIGINT);
-- how far ahead a forecast counts
CREATE TEMP TABLE units (name VARCHAR, step_ms BIGINT, ahead_ms BIGINT);

-- How segments of each log lie. Of several logs some may be pulled, and have none: what is in those is left out.
CREATE TEMP VIEW extents AS
WITH followed AS (
  SELECT
    start, log_of(start) AS its_log,
    lead(start) OVER (PARTITION BY its_log ORDER BY start) - start AS distance
  FROM segments
)
SELECT
  CASE WHEN getvariable('several') THEN its_log END AS its_log,
  min(start) AS first_start,
  min(distance) AS distance
FROM followed
GROUP BY its_log
UNION ALL
SELECT NULL, 0, NULL
WHERE NOT getvariable('several') AND NOT EXISTS (FROM segments);
