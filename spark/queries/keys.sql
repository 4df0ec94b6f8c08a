-- Keys: the busiest business keys, and the life of an order; see `keys` of spark/jobs/traffic.py.

CREATE OR REPLACE TEMP TABLE answer AS
WITH named AS (
  SELECT keys, shown, store_ms, turn_of(store_ms, position) AS turn, sent
  FROM numbered_records
  WHERE keys IS NOT NULL AND kind IN ('plain', 'parked', 'half')
),
-- nearly all have one key: taking them apart costs more than looking twice
words AS NOT MATERIALIZED (
  SELECT keys AS key, shown, store_ms, turn, sent
  FROM named
  WHERE keys <> '' AND NOT contains(keys, ' ')
  UNION ALL
  SELECT key, shown, store_ms, turn, sent
  FROM named, unnest(list_distinct(string_split(keys, ' '))) AS each(key)
  WHERE contains(keys, ' ') AND key <> ''
),
busy AS NOT MATERIALIZED (
  SELECT
    shown, key, count(*) FILTER (sent) AS sent, min(store_ms) AS first_ms, position_at(min(turn)) AS first_one
  FROM words
  WHERE shown IS NOT NULL
  GROUP BY shown, key
),
by_topic AS (
  SELECT
    shown AS topic,
    count(*) AS number,
    min(first_one) AS first_one,
    min({most: -sent, first_one: first_one, key: key, first_ms: first_ms}, getvariable('top')) FILTER (sent > 0) AS best
  FROM busy
  GROUP BY shown
),
reach AS (
  SELECT 'reach' AS series, topic, number AS value, [first_one] AS positions
  FROM by_topic
),
hot AS (
  SELECT
    'hot' AS series, topic, one.key AS label, one.first_ms AS at_ms, -one.most AS value, [one.first_one] AS positions
  FROM by_topic, unnest(best) AS each(one)
),
orders AS (
  SELECT
    arg_min_null(shown, turn) AS topic, max(store_ms) AS last_ms, min(store_ms) AS first_ms, min(turn) AS turn
  FROM words
  GROUP BY key
  HAVING count(*) > 1
),
lives AS (
  SELECT topic, less(last_ms, first_ms) AS measured, position_at(turn) AS position
  FROM orders
  WHERE topic IS NOT NULL
),
figures AS (
  SELECT * FROM reach
  UNION ALL BY NAME SELECT * FROM hot
  UNION ALL BY NAME SELECT * FROM quantiles('lives', 'life_')
)
SELECT * FROM points('figures');
