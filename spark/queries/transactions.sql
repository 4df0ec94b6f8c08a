-- Transactions: how long producers take to decide, what they decide, how often they had to be asked; see `transactions`
-- of spark/jobs/waiting.py.

CREATE OR REPLACE TEMP TABLE answer AS
WITH known AS (
  SELECT *, coalesce(producer_group, '') AS label, less(decided_ms, store_ms) AS measured
  FROM halves
),
outcome AS (
  SELECT
    'outcome' AS series, topic, label, outcome AS part, count(*) AS value, first_and_last(position) AS positions
  FROM known
  GROUP BY topic, label, part
),
asked AS (
  SELECT 'checks' AS series, topic, label, sum(checks) AS value, first_and_last(position) AS positions
  FROM known
  WHERE checks > 0
  GROUP BY topic, label
),
often AS (
  SELECT
    'checked' AS series, topic, checks::VARCHAR AS label, count(*) AS value, first_and_last(position) AS positions
  FROM known
  GROUP BY topic, 3
),
decisions AS (
  SELECT topic, label, measured, position FROM known
),
figures AS (
  SELECT * FROM outcome
  UNION ALL BY NAME SELECT * FROM asked
  UNION ALL BY NAME SELECT * FROM often
  UNION ALL BY NAME SELECT * FROM quantiles('decisions', 'decide_')
)
SELECT * FROM points('figures');
