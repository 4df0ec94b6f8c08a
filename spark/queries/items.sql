-- One row a parked message, and one for each message that was ended, but never parked: see `parked_items` of
-- spark/view.py for the columns, and its head for how Apache RocketMQ's records are matched.

CREATE TEMP TABLE items AS
WITH own_endings AS (
  SELECT
    CASE
      WHEN released THEN source_position
      WHEN kind = 'delete' THEN cancels_position
      WHEN kind = 'parked' THEN replaces_position
    END AS item,
    CASE WHEN released THEN 'released' WHEN kind = 'delete' THEN 'cancelled' ELSE 'replaced' END AS how,
    position AS ended_by,
    store_ms AS ended_ms,
    shown AS ended_topic
  FROM numbered_records
  WHERE released OR kind IN ('delete', 'parked')
),
-- releases and deletes of Apache RocketMQ, which name a unique key at most
marks AS (
  SELECT
    -- the value of a delete is the key, or topic+key
    CASE WHEN released THEN unique_key ELSE regexp_replace(deletes_key, '^[^+]*\+', '') END AS unique_key,
    released, out_ms, position, store_ms, shown, log
  FROM numbered_records
  WHERE unique_key IS NOT NULL AND released AND source_position IS NULL
    OR kind = 'delete' AND NOT exact AND deletes_key IS NOT NULL
),
releases AS (
  SELECT
    *, row_number() OVER (PARTITION BY unique_key, shown, log ORDER BY position NULLS FIRST) AS nth
  FROM marks
  WHERE released
),
marked AS (
  SELECT
    unique_key, shown, exact, mode, out_ms, position, log,
    row_number() OVER (PARTITION BY unique_key, shown, log ORDER BY position NULLS FIRST) AS nth
  FROM numbered_records SEMI JOIN marks USING (unique_key, log)
  WHERE kind = 'parked'
),
apache_endings AS (
  SELECT
    marked.position AS item, 'released' AS how,
    releases.position AS ended_by, releases.store_ms AS ended_ms, shown AS ended_topic
  FROM releases JOIN marked USING (unique_key, shown, log, nth)
  UNION ALL
  SELECT
    marked.position, 'cancelled', min(marks.position), min(marks.store_ms), any_value(marked.shown)
  FROM marks JOIN marked USING (unique_key, log, out_ms)
  WHERE NOT marks.released AND mode = 'timer' AND NOT exact AND marked.position < marks.position
  GROUP BY marked.position
),
ended AS (
  SELECT
    item,
    count(*) AS ends,
    unnest(arg_min({how: how, ended_ms: ended_ms, ended_by: ended_by, ended_topic: ended_topic}, ended_by))
  FROM (SELECT * FROM own_endings UNION ALL SELECT * FROM apache_endings)
  WHERE item IS NOT NULL
  GROUP BY item
),
parked AS (
  SELECT position, shown, mode, exact, delay_level, due_ms, store_ms, size
  FROM numbered_records
  WHERE kind = 'parked'
)
SELECT
  position, coalesce(shown, ended_topic) AS shown, mode, exact, delay_level, due_ms, store_ms, size,
  how, ended_ms, ended_by, coalesce(ends, 0) AS ends, item
FROM parked FULL JOIN ended ON position = item;
