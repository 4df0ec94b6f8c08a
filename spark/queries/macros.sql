-- What all dashboards are written with.
--
-- A dashboard makes the table `answer` by one SELECT that ends in `FROM points('figures')`: `figures` is the union BY
-- NAME of its series, each with those of the columns of a point that it has (spark/points.py says what they mean).

CREATE TEMP TABLE no_points (
  series VARCHAR, topic VARCHAR, label VARCHAR, part VARCHAR, at_ms BIGINT, value DOUBLE, positions BIGINT[]
);

-- Figures as points: a column that a series does not have is empty.
CREATE TEMP MACRO points(figures) AS TABLE
SELECT
  series, coalesce(topic, '') AS topic, coalesce(label, '') AS label, coalesce(part, '') AS part, at_ms, value,
  positions
FROM (SELECT * FROM no_points UNION ALL BY NAME SELECT * FROM query_table(figures));

-- The first number less the second one; nothing where rot has made the times so large that 64 bits do not hold it.
CREATE TEMP MACRO less(minuend, subtrahend) AS TRY(minuend - subtrahend);

-- The beginning of the bucket of a moment, before 1970 as well.
CREATE TEMP MACRO floor_to(moment, step_ms) AS TRY(moment - (moment % step_ms + step_ms) % step_ms);

CREATE TEMP MACRO minute_ms() AS 60000;
CREATE TEMP MACRO hour_ms() AS 3600000;
CREATE TEMP MACRO day_ms() AS 86400000;

-- The name of the span in which a length of time lies (SPANS in spark/question.py).
CREATE TEMP MACRO span_of(length_ms) AS CASE
  WHEN length_ms < 0 THEN 'early'
  WHEN length_ms < 1 THEN '< 1 ms'
  WHEN length_ms < 10 THEN '< 10 ms'
  WHEN length_ms < 100 THEN '< 100 ms'
  WHEN length_ms < 1000 THEN '< 1 s'
  WHEN length_ms < 10000 THEN '< 10 s'
  WHEN length_ms < 60000 THEN '< 1 min'
  WHEN length_ms < 600000 THEN '< 10 min'
  WHEN length_ms < 3600000 THEN '< 1 h'
  WHEN length_ms < 21600000 THEN '< 6 h'
  WHEN length_ms < 86400000 THEN '< 1 d'
  WHEN length_ms < 604800000 THEN '< 7 d'
  WHEN length_ms < 2592000000 THEN '< 30 d'
  WHEN length_ms < 31536000000 THEN '< 1 y'
  WHEN length_ms < 4611686018427387904 THEN '>= 1 y'
END;

-- Two positions as a list, once where they are one.
CREATE TEMP MACRO both_ends(first_one, last_one) AS
  CASE WHEN first_one IS NOT DISTINCT FROM last_one THEN [first_one] ELSE [first_one, last_one] END;

-- The first and the last position of a group; nulls count for nothing.
CREATE TEMP MACRO first_and_last(place) AS
  CASE WHEN count(place) = 0 THEN [] ELSE both_ends(min(place), max(place)) END;

-- The first positions of a group, in order.
CREATE TEMP MACRO some_positions(place) AS coalesce(min(place, getvariable('most_positions')), []);

-- Places of several logs in one column (spark/places.py).
CREATE TEMP MACRO log_of(place) AS place >> 52;
CREATE TEMP MACRO position_of(place) AS place & ((1::BIGINT << 52) - 1);

CREATE TEMP TABLE no_measures (topic VARCHAR, label VARCHAR, at_ms BIGINT, measured BIGINT, position BIGINT);

-- Count, p50, p95, p99 and max of `measured` by those of the columns topic, label and at_ms that `measures` has.
--
-- A percentile is the smallest value that at least so large a share of the values does not exceed. The maximum names
-- the position of the first that has it. Equal values are counted first: what has to be put in order is less then.
CREATE TEMP MACRO quantiles(measures, prefix) AS TABLE
WITH counted AS (
  SELECT topic, label, at_ms, measured, count(*) AS number, min(position) AS place
  FROM (SELECT * FROM no_measures UNION ALL BY NAME SELECT * FROM query_table(measures))
  WHERE measured IS NOT NULL
  GROUP BY ALL
),
ranked AS (
  SELECT
    *,
    sum(number) OVER (PARTITION BY topic, label, at_ms ORDER BY measured) AS up_to,
    sum(number) OVER (PARTITION BY topic, label, at_ms) AS total
  FROM counted
),
grouped AS (
  SELECT
    topic, label, at_ms,
    sum(number) AS number,
    min(measured) FILTER (up_to * 100 >= total * 50) AS p50,
    min(measured) FILTER (up_to * 100 >= total * 95) AS p95,
    min(measured) FILTER (up_to * 100 >= total * 99) AS p99,
    max(measured) AS most,
    arg_max_null(place, measured) AS place
  FROM ranked
  GROUP BY ALL
)
SELECT
  topic, label, at_ms,
  unnest([
    {series: prefix || 'count', value: number::DOUBLE, positions: NULL},
    {series: prefix || 'p50', value: p50::DOUBLE, positions: NULL},
    {series: prefix || 'p95', value: p95::DOUBLE, positions: NULL},
    {series: prefix || 'p99', value: p99::DOUBLE, positions: NULL},
    {series: prefix || 'max', value: most::DOUBLE, positions: CASE WHEN place IS NOT NULL THEN [place] END}
  ], recursive := true)
FROM grouped;

-- What orders messages, and the position in it: of several logs only time can tell which came first.
CREATE TEMP MACRO turn_of(store_ms, place) AS
  CASE WHEN getvariable('several') THEN coalesce(store_ms, -9223372036854775808) ELSE 0 END::HUGEINT
    * 9223372036854775808 + place;
CREATE TEMP MACRO position_at(turn) AS (turn & 9223372036854775807)::BIGINT;

-- The first position of the segment that holds a record. Segments of one store are of one size; a file can be shorter,
-- where it was not copied whole: `distance` is the smallest between two that follow one another, null without two.
CREATE TEMP MACRO segment_of(place, first_start, distance) AS CASE
  WHEN distance IS NULL THEN first_start
  ELSE TRY(place - ((place - first_start) % distance + distance) % distance)
END;

-- The name of a segment: its first position, of several logs behind the name of the broker.
CREATE TEMP MACRO name_of(segment) AS CASE
  WHEN getvariable('several') THEN getvariable('brokers')[log_of(segment) + 1] || ' ' || position_of(segment)::VARCHAR
  ELSE segment::VARCHAR
END;
