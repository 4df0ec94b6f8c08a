-- Flow: what is sent, released, committed and consumed; see `flow` of spark/jobs/traffic.py for what each series means.

CREATE OR REPLACE TEMP TABLE answer AS
WITH minutes AS (
  SELECT
    shown AS topic,
    floor_to(store_ms, minute_ms()) AS at_ms,
    unnest([
      {series: 'sent', value: count(*) FILTER (sent),
       positions: first_and_last(CASE WHEN sent THEN position END)},
      {series: 'released', value: count(*) FILTER (released),
       positions: first_and_last(CASE WHEN released THEN position END)},
      {series: 'committed', value: count(*) FILTER (committed),
       positions: first_and_last(CASE WHEN committed THEN position END)},
      {series: 'bytes', value: sum(size), positions: first_and_last(position)}
    ], recursive := true)
  FROM numbered_records
  WHERE kind <> 'damage'
  GROUP BY 1, 2
),
consumed AS (
  SELECT
    'consumed' AS series, topic, consumer AS label,
    floor_to(store_ms, minute_ms()) AS at_ms,
    count(*) AS value,
    first_and_last(position) AS positions
  FROM numbered_records JOIN offsets USING (topic, queue_id, log)
  WHERE kind = 'plain' AND queue_offset < next_offset
  GROUP BY topic, label, 4
),
-- by topic, because not everybody may see every topic
hosts AS (
  SELECT shown, born_host, count(*) AS sent, min(position) AS first_one, max(position) AS last_one
  FROM numbered_records
  WHERE sent
  GROUP BY shown, born_host
),
producers AS (
  SELECT
    'producers' AS series, shown AS topic, regexp_replace(born_host, ':[0-9]+$', '') AS label,
    sum(sent) AS value,
    both_ends(min(first_one), max(last_one)) AS positions
  FROM hosts
  GROUP BY topic, label
),
figures AS (
  SELECT * FROM minutes WHERE value > 0
  UNION ALL BY NAME SELECT * FROM consumed
  UNION ALL BY NAME SELECT * FROM producers
)
SELECT * FROM points('figures');
