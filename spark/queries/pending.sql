-- Pending and forecast: what fires when; see `pending` of spark/jobs/waiting.py.

CREATE OR REPLACE TEMP TABLE answer AS
WITH waiting AS (
  SELECT shown AS topic, position, due_ms, less(due_ms, getvariable('as_of_ms')) AS in_ms
  FROM items
  WHERE ends = 0
),
pending AS (
  SELECT
    'pending' AS series, topic,
    coalesce(CASE WHEN in_ms < 0 THEN 'overdue' ELSE span_of(in_ms) END, 'unknown') AS label,
    count(*) AS value,
    -- of those that are due next the first one
    [arg_min_null(position, (due_ms IS NOT NULL, due_ms, position IS NOT NULL, position))] AS positions
  FROM waiting
  GROUP BY topic, label
),
ahead AS (
  SELECT
    units.name AS series, topic, floor_to(due_ms, step_ms) AS at_ms,
    count(*) AS value,
    coalesce(min(position, 10), []) AS positions
  FROM waiting JOIN units ON in_ms >= 0 AND in_ms < ahead_ms
  GROUP BY series, topic, 3
),
figures AS (
  SELECT * FROM pending
  UNION ALL BY NAME SELECT * FROM ahead
)
SELECT * FROM points('figures');
