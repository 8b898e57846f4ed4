-- Fixes that a person cannot have been at, since the way from the fix before would have been too fast. Between two such jumps lies a stretch
-- of good fixes, or of wild ones. Near a jump each fix is weighed alone, further from it all of a stretch together; which of them go is
-- decided for a subject as a whole, so that the fewest fixes are lost, and not one by one in the order of time. What was loaded before is
-- weighed with it, but stays.

CREATE OR REPLACE FUNCTION dbanon_internal.choose_longest_chain(
    fixes bigint[], first double precision[], last double precision[], max_speed_kmh double precision) RETURNS integer[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    parts CONSTANT integer := cardinality(fixes);
    look_back CONSTANT integer := 20;
    -- Of the chains that end with a part: most fixes in one, and the part before the last in it.
    most bigint[] := fixes;
    before integer[] := array_fill(0, ARRAY[parts]);
    best integer := 1;
    metres double precision;
    earlier integer;
    chain integer[] := '{}';
BEGIN
    FOR this IN 2 .. parts LOOP
        -- The best of all before, which lies further back where many wild fixes follow each other, and those just before.
        FOR nth IN 0 .. least(look_back, this - 1) LOOP
            earlier := CASE nth WHEN 0 THEN best ELSE this - nth END;
            CONTINUE WHEN most[earlier] + fixes[this] <= most[this];
            metres := 12742017.6 * asin(least(1, sqrt(power(sin(radians(first[this][3] - last[earlier][3]) / 2), 2)
                + cos(radians(last[earlier][3])) * cos(radians(first[this][3])) * power(sin(radians(first[this][2] - last[earlier][2]) / 2), 2))));
            IF metres * 3.6 <= max_speed_kmh * (first[this][1] - last[earlier][1]) THEN
                most[this] := most[earlier] + fixes[this];
                before[this] := earlier;
            END IF;
        END LOOP;
        best := CASE WHEN most[this] > most[best] THEN this ELSE best END;
    END LOOP;
    WHILE best > 0 LOOP
        chain := best || chain;
        best := before[best];
    END LOOP;
    RETURN chain;
END
$$;
COMMENT ON FUNCTION dbanon_internal.choose_longest_chain IS
'Chooses, among the parts of a subject''s path in the order of time, those with the most fixes of which each is near enough to the one before;
their numbers; a part is how many fixes it has, and {unix seconds, longitude, latitude} of its first and of its last.';

CREATE OR REPLACE FUNCTION dbanon_internal.mark_too_fast(asked dbanon_internal.loading, known dbanon.dataset, source_srid integer) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp
SET extra_float_digits = 1
AS $$
DECLARE
    geographic CONSTANT boolean := (dbanon_internal.demand_reference_system('EPSG:' || source_srid)).geographic;
BEGIN
    -- What is stored of a subject counts as if it were of the same load: of the paths that overlap in time with what is added all fixes, of
    -- the next ones before and after it the nearest twenty.
    -- Stretches are numbered by the jumps before them; their first and last five fixes are parts of their own. Arrays compare by their
    -- first values: the least of a part is its first fix.
    EXECUTE format(
        'WITH span AS MATERIALIZED ('
        '  SELECT subject COLLATE "default" AS subject, min(t) AS low, max(t) AS high '
        '  FROM pg_temp.dbanon_staged WHERE %5$L::boolean GROUP BY subject), '
        'stored AS MATERIALIZED ('
        '  SELECT span.subject COLLATE "C" AS subject, @postgis@.ST_M(point.geom) AS t, '
        '      @postgis@.ST_Transform(@postgis@.ST_Force2D(point.geom), 4326) AS place '
        '  FROM span CROSS JOIN LATERAL (SELECT tra.path, tra.first_s, tra.last_s FROM dbanon.trajectory tra '
        '      WHERE tra.dataset_id = %6$s AND tra.subject = span.subject '
        '      AND (tra.subject, tra.last_s) >= (span.subject, coalesce((SELECT max(other.last_s) FROM dbanon.trajectory other '
        '          WHERE other.dataset_id = %6$s AND other.subject = span.subject AND (other.subject, other.last_s) < (span.subject, span.low)), span.low)) '
        '      AND (tra.subject, tra.last_s) <= (span.subject, coalesce((SELECT min(other.last_s) FROM dbanon.trajectory other '
        '          WHERE other.dataset_id = %6$s AND other.subject = span.subject AND (other.subject, other.last_s) > (span.subject, span.high)), span.high)) OFFSET 0) tra '
        '  CROSS JOIN LATERAL @postgis@.ST_DumpPoints(tra.path) point '
        '  WHERE (tra.last_s >= span.low OR coalesce(point.path[1], 1) > @postgis@.ST_NPoints(tra.path) - 20) '
        '    AND (tra.first_s <= span.high OR coalesce(point.path[1], 1) <= 20)), '
        'placed AS ('
        '  SELECT subject, t, %1$s FROM (SELECT subject, t, x, y, %2$s AS place FROM pg_temp.dbanon_staged OFFSET 0) sta '
        '  UNION ALL SELECT subject, t, @postgis@.ST_X(place), @postgis@.ST_Y(place) FROM stored), '
        'paced AS ('
        '  SELECT *, %3$s * 3.6 > %4$L::float8 * (t - lag(t) OVER w) AS jumps FROM placed WINDOW w AS (PARTITION BY subject ORDER BY t)), '
        'stretched AS ('
        '  SELECT subject, t, lon, lat, count(*) FILTER (WHERE jumps) OVER (PARTITION BY subject ORDER BY t) AS stretch '
        '  FROM paced WHERE subject IN (SELECT paced.subject FROM paced WHERE paced.jumps)), '
        'counted AS ('
        '  SELECT *, row_number() OVER (PARTITION BY subject, stretch ORDER BY t) AS nth, count(*) OVER (PARTITION BY subject, stretch) AS all_of '
        '  FROM stretched), '
        'cut AS MATERIALIZED ('
        '  SELECT subject, t, lon, lat, count(*) FILTER (WHERE nth <= 6 OR nth > all_of - 5) OVER (PARTITION BY subject ORDER BY t) AS part '
        '  FROM counted), '
        'parts AS ('
        '  SELECT subject, part, count(*) AS fixes, min(ARRAY[t, lon, lat]) AS first, max(ARRAY[t, lon, lat]) AS last '
        '  FROM cut GROUP BY subject, part), '
        'chosen AS ('
        '  SELECT parts.subject, unnest(dbanon_internal.choose_longest_chain(array_agg(parts.fixes ORDER BY parts.part), '
        '      array_agg(parts.first ORDER BY parts.part), array_agg(parts.last ORDER BY parts.part), %4$L::float8)) AS part '
        '  FROM parts GROUP BY parts.subject), '
        'fast AS MATERIALIZED ('
        '  SELECT cut.subject, cut.t FROM cut '
        '  WHERE NOT EXISTS (SELECT FROM chosen WHERE chosen.subject = cut.subject AND chosen.part = cut.part)) '
        'UPDATE pg_temp.dbanon_staged sta SET reason = ''too-fast'' FROM fast WHERE sta.subject = fast.subject AND sta.t = fast.t',
        CASE WHEN geographic THEN 'x AS lon, y AS lat' ELSE '@postgis@.ST_X(place) AS lon, @postgis@.ST_Y(place) AS lat' END,
        CASE WHEN geographic THEN 'NULL' ELSE
            format('@postgis@.ST_Transform(@postgis@.ST_SetSRID(@postgis@.ST_MakePoint(x, y), %s), 4326)', source_srid) END,
        -- Metres on a sphere, within 0.6 percent.
        '(12742017.6 * asin(least(1, sqrt(power(sin(radians(lat - lag(lat) OVER w) / 2), 2) '
        '+ cos(radians(lag(lat) OVER w)) * cos(radians(lat)) * power(sin(radians(lon - lag(lon) OVER w) / 2), 2)))))', asked.max_speed_kmh,
        asked.mode IN ('append', 'new'), known.dataset_id);
END
$$;
COMMENT ON FUNCTION dbanon_internal.mark_too_fast IS
'Marks the staged fixes without which no subject would be faster than asked for, beside what is stored. Raises an error if the reference system is unknown.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_too_fast(n bigint, max_speed_kmh double precision) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
SET extra_float_digits = 1
AS $$
    SELECT format('%s more than %s km/h from the fix before and %s kept. Load with drop_outliers => true to leave %s out.',
                  dbanon_internal.format_quantity(n, 'fix implies', 'fixes imply'), max_speed_kmh, CASE n WHEN 1 THEN 'was' ELSE 'were' END,
                  CASE n WHEN 1 THEN 'it' ELSE 'them' END)
    WHERE n > 0
$$;
COMMENT ON FUNCTION dbanon_internal.describe_too_fast IS 'Words which fixes were kept although somebody would have been too fast.';
