-- Storage: what fills each segment of the log, what holds it, how fast the log grows (`storage`, spark/jobs/accounts.py).

CREATE OR REPLACE TEMP TABLE answer AS
WITH sized AS (
  SELECT segment_of(position, first_start, distance) AS segment, shown, store_ms, size, position
  FROM numbered_records JOIN extents ON its_log IS NULL OR its_log = log_of(position)
  WHERE position >= first_start
),
filled AS (
  SELECT
    segment, shown AS topic, floor_to(store_ms, hour_ms()) AS at_ms,
    sum(size) AS bytes, min(position) AS first_one, max(position) AS last_one, max(store_ms) AS last_ms
  FROM sized
  GROUP BY segment, topic, 3
),
content AS (
  SELECT
    'content' AS series, topic, name_of(segment) AS label,
    sum(bytes) AS value, both_ends(min(first_one), max(last_one)) AS positions
  FROM filled
  GROUP BY topic, segment
),
growth AS (
  SELECT
    'growth' AS series, topic, at_ms,
    sum(bytes) AS value, both_ends(min(first_one), max(last_one)) AS positions
  FROM filled
  WHERE at_ms IS NOT NULL
  GROUP BY topic, at_ms
),
waits AS (
  SELECT shown AS topic, mode AS part, position, size, due_ms
  FROM items
  WHERE ends = 0
  UNION ALL
  SELECT topic, 'half', position, size, NULL
  FROM halves
  WHERE outcome IN ('open', 'stuck')
),
waiting AS (
  SELECT segment_of(position, first_start, distance) AS segment, topic, part, position, size, due_ms
  FROM waits JOIN extents ON its_log IS NULL OR its_log = log_of(position)
  WHERE position >= first_start
),
kept AS (
  SELECT segment, topic, part, count(*) AS number, sum(size) AS bytes, min(position) AS first_one
  FROM waiting
  GROUP BY segment, topic, part
),
held AS (
  SELECT 'held' AS series, topic, name_of(segment) AS label, part, number AS value, [first_one] AS positions
  FROM kept
),
held_bytes AS (
  SELECT 'held_bytes' AS series, topic, name_of(segment) AS label, part, bytes AS value
  FROM kept
),
lasts AS (
  SELECT segment, max(last_ms) AS last_ms
  FROM filled
  GROUP BY segment
),
untils AS (
  SELECT segment, max(due_ms) AS held_ms, bool_or(due_ms IS NULL) AS is_undecided
  FROM waiting
  GROUP BY segment
),
expiries AS (
  SELECT
    segment,
    CASE
      WHEN is_undecided THEN -1
      ELSE greatest(TRY(last_ms + coalesce(kept_ms, getvariable('retention_ms'))), held_ms)
    END AS at_ms
  FROM lasts LEFT JOIN untils USING (segment) LEFT JOIN retentions ON retentions.log = log_of(segment)
),
expiry AS (
  SELECT 'expiry' AS series, name_of(segment) AS label, at_ms, at_ms AS value
  FROM expiries
),
figures AS (
  SELECT * FROM content
  UNION ALL BY NAME SELECT * FROM growth
  UNION ALL BY NAME SELECT * FROM held
  UNION ALL BY NAME SELECT * FROM held_bytes
  UNION ALL BY NAME SELECT * FROM expiry
)
SELECT * FROM points('figures');
