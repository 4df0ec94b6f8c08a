-- Retries and dead letters; see `retries` of spark/jobs/traffic.py.

CREATE OR REPLACE TEMP TABLE answer AS
WITH named AS (
  SELECT
    *,
    starts_with(topic, getvariable('dlq_prefix')) AS is_dead,
    substring(
      topic,
      1 + length(CASE WHEN is_dead THEN getvariable('dlq_prefix') ELSE getvariable('retry_prefix') END),
      255
    ) AS its_group
  FROM numbered_records
  WHERE kind = 'plain'
    AND (starts_with(topic, getvariable('retry_prefix')) OR starts_with(topic, getvariable('dlq_prefix')))
),
tries AS (
  SELECT
    topic,
    -- a group that pops has a topic for each topic it reads, <group>_<topic> or <group>+<topic>: the record says which
    CASE
      WHEN starts_with(its_group, origin_group || '_') OR starts_with(its_group, origin_group || '+') THEN origin_group
      ELSE its_group
    END AS label,
    coalesce(origin_id, unique_key, position::VARCHAR) AS message,
    coalesce(keys, unique_key, '') AS key,
    reconsume_times, born_ms, store_ms, position, is_dead
  FROM named
),
attempts AS (
  SELECT
    'attempts' AS series, topic, label, reconsume_times::VARCHAR AS part,
    count(*) AS value, first_and_last(position) AS positions
  FROM tries
  WHERE NOT is_dead
  GROUP BY topic, label, part
),
dead AS (
  SELECT 'dead' AS series, topic, label, count(*) AS value, some_positions(position) AS positions
  FROM tries
  WHERE is_dead
  GROUP BY topic, label
),
latest AS (
  SELECT topic, label, message, max(store_ms) AS last_ms, min(born_ms) AS first_ms, max(position) AS position
  FROM tries
  WHERE NOT is_dead
  GROUP BY topic, label, message
),
alive AS (
  SELECT topic, label, less(last_ms, first_ms) AS measured, position
  FROM latest ANTI JOIN (SELECT label, message FROM tries WHERE is_dead) USING (label, message)
),
counted AS (
  SELECT topic, label, key, count(*) FILTER (is_dead) AS died, count(*) AS number
  FROM tries
  WHERE key <> ''
  GROUP BY topic, label, key
),
worst AS (
  SELECT topic, label, key
  FROM counted
  QUALIFY
    row_number() OVER (PARTITION BY topic, label ORDER BY died DESC, number DESC, key) <= getvariable('top')
),
-- positions of these only: of every key that was ever tried again they would take more memory than all the rest
poison AS (
  SELECT 'poison' AS series, topic, label, key AS part, count(*) AS value, some_positions(position) AS positions
  FROM tries SEMI JOIN worst USING (topic, label, key)
  GROUP BY topic, label, key
),
figures AS (
  SELECT * FROM attempts
  UNION ALL BY NAME SELECT * FROM dead
  UNION ALL BY NAME SELECT * FROM quantiles('alive', 'again_')
  UNION ALL BY NAME SELECT * FROM poison
)
SELECT * FROM points('figures');
