-- Cancellations and reschedules; see `cancellations` of spark/jobs/waiting.py.

CREATE OR REPLACE TEMP TABLE answer AS
WITH fated AS (
  SELECT
    shown AS topic, coalesce(how, 'pending') AS label, less(due_ms, ended_ms) AS before_ms, position
  FROM items
  WHERE position IS NOT NULL
),
before AS (
  SELECT
    'before' AS series, topic, label, span_of(before_ms) AS part,
    count(*) AS value, first_and_last(position) AS positions
  FROM fated
  WHERE label IN ('cancelled', 'replaced')
  GROUP BY topic, label, part
),
fate AS (
  SELECT 'fate' AS series, topic, label, count(*) AS value, first_and_last(position) AS positions
  FROM fated
  GROUP BY topic, label
),
share AS (
  SELECT
    'share' AS series, topic,
    unnest([
      {label: 'cancelled', value: count(*) FILTER (label = 'cancelled') / count(*)},
      {label: 'replaced', value: count(*) FILTER (label = 'replaced') / count(*)}
    ], recursive := true)
  FROM fated
  GROUP BY topic
),
figures AS (
  SELECT * FROM before
  UNION ALL BY NAME SELECT * FROM fate
  UNION ALL BY NAME SELECT * FROM share
)
SELECT * FROM points('figures');
