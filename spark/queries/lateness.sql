-- Lateness: when a message was released against when it was due; see `lateness` of spark/jobs/waiting.py.

CREATE OR REPLACE TEMP TABLE answer AS
WITH released AS (
  SELECT
    shown AS topic,
    coalesce(CASE WHEN mode = 'level' THEN 'level ' || delay_level::VARCHAR END, 'timer') AS label,
    ended_ms,
    ended_by AS position,
    exact AND ended_ms < due_ms AS on_request,
    -- one that was sent with a moment already over is not late by that
    less(ended_ms, greatest(due_ms, store_ms)) AS measured
  FROM items
  WHERE position IS NOT NULL AND how = 'released' AND due_ms IS NOT NULL
),
lanes AS (
  SELECT topic, label, measured, position FROM released WHERE NOT on_request
),
hours AS (
  SELECT topic, floor_to(ended_ms, hour_ms()) AS at_ms, measured, position FROM released WHERE NOT on_request
),
histogram AS (
  SELECT
    'histogram' AS series, topic, label, span_of(measured) AS part,
    count(*) AS value, first_and_last(position) AS positions
  FROM released
  GROUP BY topic, label, part
),
figures AS (
  SELECT * FROM histogram
  UNION ALL BY NAME SELECT * FROM quantiles('lanes', 'late_')
  UNION ALL BY NAME SELECT * FROM quantiles('hours', 'hour_')
)
SELECT * FROM points('figures');
