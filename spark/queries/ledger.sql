-- Ledger: everything that was accepted is somewhere, by topic and day; see `ledger` of spark/jobs/accounts.py.

CREATE OR REPLACE TEMP TABLE answer AS
WITH entered AS (
  SELECT
    shown AS topic, floor_to(store_ms, day_ms()) AS at_ms, 'scheduled' AS label,
    coalesce(how, 'pending') AS how, greatest(ends, 1) AS entries, position
  FROM items
  WHERE position IS NOT NULL
  UNION ALL
  SELECT
    topic, floor_to(store_ms, day_ms()), 'transactions',
    outcome, CASE WHEN outcome = 'committed' THEN copies ELSE 1 END, position
  FROM halves
),
-- each message is entered once as accepted, and what became of it as often as the log says so
became AS (
  SELECT
    topic, at_ms, label, how,
    count(*) AS number, sum(entries) AS entries, min(position) AS first_one, max(position) AS last_one
  FROM entered
  GROUP BY topic, at_ms, label, how
),
fates AS (
  SELECT how AS series, topic, label, at_ms, number AS value, both_ends(first_one, last_one) AS positions
  FROM became
),
totals AS (
  SELECT
    topic, label, at_ms,
    unnest([
      {series: 'accepted', value: sum(number)},
      {series: 'difference', value: sum(number) - sum(entries)}
    ], recursive := true),
    both_ends(min(first_one), max(last_one)) AS positions
  FROM became
  GROUP BY topic, label, at_ms
),
-- what was parked before the first position that is left cannot be looked up any more
begins AS (
  SELECT log, min(position) AS begin_position
  FROM numbered_records
  GROUP BY log
),
found AS (
  SELECT
    shown AS topic,
    CASE
      WHEN position IS NULL THEN 'unknown'
      WHEN ends > 1 THEN 'twice'
      WHEN ends = 0 AND due_ms < getvariable('as_of_ms') - getvariable('grace_ms') THEN 'overdue'
    END AS part,
    coalesce(position, ended_by) AS place
  FROM items JOIN begins ON NOT getvariable('several') OR log = log_of(coalesce(position, item))
  WHERE position IS NOT NULL OR item >= begin_position
  UNION ALL
  SELECT
    topic, CASE WHEN said = 'c' AND copies = 0 THEN 'no copy' WHEN copies > 1 THEN 'two copies' END, position
  FROM halves
  UNION ALL
  SELECT '', 'lost', position
  FROM numbered_records
  WHERE corrupt IS NOT NULL
),
alarms AS (
  SELECT 'alarm' AS series, topic, part, count(*) AS value, some_positions(place) AS positions
  FROM found
  WHERE part IS NOT NULL
  GROUP BY topic, part
),
figures AS (
  SELECT * FROM fates
  UNION ALL BY NAME SELECT * FROM totals
  UNION ALL BY NAME SELECT * FROM alarms
)
SELECT * FROM points('figures');
