-- One row a transaction: see `half_messages` of spark/view.py for the columns, and its head for chains of halves.

CREATE TEMP TABLE halves AS
WITH noted AS (
  -- a body as text has each byte that could not be part of a number as \x and its value
  SELECT kind, position, store_ms, decisions, log, string_split(body::VARCHAR, ',') AS words
  FROM numbered_records
  WHERE kind IN ('op', 'note') AND body IS NOT NULL
),
ops AS (
  SELECT
    position, store_ms, log,
    list_filter(words, lambda word: regexp_full_match(word, '[0-9]{1,18}')) AS offsets,
    regexp_extract_all(decisions, '([cr])\d+', 1) AS letters
  FROM noted
  WHERE kind = 'op'
),
op_words AS (
  SELECT
    position, store_ms, log,
    unnest(offsets)::BIGINT AS queue_offset,
    unnest(
      CASE WHEN len(letters) = len(offsets) THEN letters ELSE list_resize([]::VARCHAR[], len(offsets), '?') END
    ) AS word,
    generate_subscripts(offsets, 1) AS nth
  FROM ops
),
-- the first word counts
decided AS (
  SELECT queue_offset, log, arg_min(word, (position, nth)) AS said, min(store_ms) AS op_ms
  FROM op_words
  GROUP BY queue_offset, log
),
note_words AS (
  SELECT
    log, unnest(list_filter(words, lambda word: regexp_full_match(word, '[0-9]{1,18}:[0-9]{1,9}'))) AS pair
  FROM noted
  WHERE kind = 'note'
),
asked AS (
  SELECT split_part(pair, ':', 1)::BIGINT AS queue_offset, log, max(split_part(pair, ':', 2)::INTEGER) AS asked
  FROM note_words
  GROUP BY 1, 2
),
-- what copies and records of what was given up say of the half that they name
named AS (
  SELECT
    CASE WHEN committed THEN prepared_position ELSE stuck_position END AS place,
    count(*) FILTER (committed) AS copies,
    min(store_ms) FILTER (committed) AS copied_ms,
    bool_or(kind = 'stuck') AS stuck
  FROM numbered_records
  WHERE committed OR kind = 'stuck' AND stuck_position IS NOT NULL
  GROUP BY place
),
-- unique keys that were given up where nothing names the half
stuck_keys AS (
  SELECT DISTINCT unique_key, log, true AS stuck_key
  FROM numbered_records
  WHERE kind = 'stuck' AND stuck_position IS NULL
),
chained AS (
  SELECT
    unique_key, producer_group, log, position, queue_offset, shown, store_ms, size, check_times,
    -- one more wherever a record was not put back; what has no key is a chain of its own
    CASE
      WHEN unique_key IS NULL THEN position
      ELSE sum(CASE WHEN put_back THEN 0 ELSE 1 END)
        OVER (PARTITION BY unique_key, producer_group, log ORDER BY position NULLS FIRST)
    END AS chain
  FROM numbered_records
  WHERE kind = 'half'
),
chains AS (
  SELECT
    unique_key, producer_group, log,
    min(position) AS position,
    arg_min_null(shown, position) AS topic,
    min(store_ms) AS store_ms,
    sum(size)::BIGINT AS size,
    greatest(max(check_times), coalesce(max(asked), 0)) AS checks,
    min(said) AS said,
    least(min(op_ms), min(copied_ms)) AS decided_ms,
    coalesce(sum(copies), 0)::BIGINT AS copies,
    coalesce(bool_or(stuck), false) AS stuck
  FROM chained
  LEFT JOIN decided USING (queue_offset, log)
  LEFT JOIN asked USING (queue_offset, log)
  LEFT JOIN named ON position = place
  GROUP BY unique_key, producer_group, chain, log
)
SELECT
  position, topic, producer_group, store_ms, size, checks,
  CASE
    WHEN said = 'c' OR copies > 0 THEN 'committed'
    WHEN said IS NOT NULL THEN 'rolled back'
    WHEN stuck OR stuck_key THEN 'stuck'
    ELSE 'open'
  END AS outcome,
  decided_ms, copies, said
FROM chains LEFT JOIN stuck_keys USING (unique_key, log);
