-- Fixes that a person cannot have been at, since the way from the fix before would have been too fast. Between two such jumps lies a stretch
-- of good fixes, or of wild ones. Near a jump each fix is weighed alone, further from it all of a stretch together; which of them go is
-- decided for a subject as a whole, so that the fewest fixes are lost, and not one by one in the order of time. What was loaded before is
-- weighed with it, but stays.

CREATE OR REPLACE FUNCTION dbanon_internal.measure_metres(
    lon double precision, lat double precision, next_lon double precision, next_lat double precision) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN 12742017.6 * asin(least(1, sqrt(power(sin(radians(next_lat - lat) / 2), 2)
    + cos(radians(lat)) * cos(radians(next_lat)) * power(sin(radians(next_lon - lon) / 2), 2))));
COMMENT ON FUNCTION dbanon_internal.measure_metres IS 'The way between two places on a sphere, within 0.6 percent.';

CREATE OR REPLACE FUNCTION dbanon_internal.choose_longest_chain(
    fixes bigint[], first double precision[], last double precision[], max_speed_kmh double precision) RETURNS integer[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    parts CONSTANT integer := cardinality(fixes);
    look_back CONSTANT integer := 20;
    -- Of the chains that end with a part: most fixes in one, and the part before the last in it.
    most bigint[] := fixes;
    before integer[] := array_fill(0, ARRAY[parts]);
    best integer := 1;
    earlier integer;
    chain integer[] := '{}';
BEGIN
    FOR this IN 2 .. parts LOOP
        -- The best of all before, which lies further back where many wild fixes follow each other, and those just before.
        FOR nth IN 0 .. least(look_back, this - 1) LOOP
            earlier := CASE nth WHEN 0 THEN best ELSE this - nth END;
            CONTINUE WHEN most[earlier] + fixes[this] <= most[this];
            IF dbanon_internal.measure_metres(last[earlier][2], last[earlier][3], first[this][2], first[this][3]) * 3.6
                <= max_speed_kmh * (first[this][1] - last[earlier][1]) THEN
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

CREATE OR REPLACE FUNCTION dbanon_internal.mark_too_fast(asked dbanon_internal.loading, dataset dbanon.dataset, source_srid integer) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    geographic CONSTANT boolean := (dbanon_internal.demand_reference_system('EPSG:' || source_srid)).geographic;
BEGIN
    -- What is stored of a subject counts as if it were of the same load: of the paths that overlap in time with what is added all fixes, of
    -- the next ones before and after it the nearest twenty.
    -- Stretches are numbered by the jumps before them; their first and last five fixes are parts of their own. Arrays compare by their
    -- first values: the least of a part is its first fix.
    WITH span AS MATERIALIZED (
        SELECT sta.subject COLLATE "default" AS subject, min(sta.t) AS low, max(sta.t) AS high
        FROM pg_temp.dbanon_staged sta WHERE asked.mode IN ('append', 'new') GROUP BY sta.subject
    ), stored AS MATERIALIZED (
        SELECT span.subject COLLATE "C" AS subject, @postgis@.ST_M(point.geom) AS t, @postgis@.ST_Transform(@postgis@.ST_Force2D(point.geom), 4326) AS place
        FROM span CROSS JOIN LATERAL (
            SELECT tra.path, tra.first_s, tra.last_s FROM dbanon.trajectory tra
            WHERE tra.dataset_id = dataset.dataset_id AND tra.subject = span.subject
                AND (tra.subject, tra.last_s) >= (span.subject, coalesce((SELECT max(other.last_s) FROM dbanon.trajectory other
                    WHERE other.dataset_id = dataset.dataset_id AND other.subject = span.subject AND (other.subject, other.last_s) < (span.subject, span.low)),
                    span.low))
                AND (tra.subject, tra.last_s) <= (span.subject, coalesce((SELECT min(other.last_s) FROM dbanon.trajectory other
                    WHERE other.dataset_id = dataset.dataset_id AND other.subject = span.subject AND (other.subject, other.last_s) > (span.subject, span.high)),
                    span.high)) OFFSET 0) tra
        CROSS JOIN LATERAL @postgis@.ST_DumpPoints(tra.path) point
        WHERE (tra.last_s >= span.low OR coalesce(point.path[1], 1) > @postgis@.ST_NPoints(tra.path) - 20)
            AND (tra.first_s <= span.high OR coalesce(point.path[1], 1) <= 20)
    ), placed AS (
        SELECT sta.subject, sta.t, CASE WHEN geographic THEN sta.x ELSE @postgis@.ST_X(sta.place) END AS lon,
            CASE WHEN geographic THEN sta.y ELSE @postgis@.ST_Y(sta.place) END AS lat
        FROM (SELECT raw.subject, raw.t, raw.x, raw.y, CASE WHEN NOT geographic THEN
                  @postgis@.ST_Transform(@postgis@.ST_SetSRID(@postgis@.ST_MakePoint(raw.x, raw.y), source_srid), 4326) END AS place
              FROM pg_temp.dbanon_staged raw OFFSET 0) sta
        UNION ALL SELECT sto.subject, sto.t, @postgis@.ST_X(sto.place), @postgis@.ST_Y(sto.place) FROM stored sto
    ), spaced AS (
        SELECT pla.*, lag(pla.t) OVER w AS before_s, lag(pla.lon) OVER w AS before_lon, lag(pla.lat) OVER w AS before_lat
        FROM placed pla WINDOW w AS (PARTITION BY pla.subject ORDER BY pla.t)
    ), paced AS (
        SELECT spa.subject, spa.t, spa.lon, spa.lat,
            dbanon_internal.measure_metres(spa.before_lon, spa.before_lat, spa.lon, spa.lat) * 3.6 > asked.max_speed_kmh * (spa.t - spa.before_s) AS jumps
        FROM spaced spa
    ), stretched AS (
        SELECT pac.subject, pac.t, pac.lon, pac.lat, count(*) FILTER (WHERE pac.jumps) OVER (PARTITION BY pac.subject ORDER BY pac.t) AS stretch
        FROM paced pac WHERE pac.subject IN (SELECT jum.subject FROM paced jum WHERE jum.jumps)
    ), counted AS (
        SELECT str.*, row_number() OVER (PARTITION BY str.subject, str.stretch ORDER BY str.t) AS nth,
            count(*) OVER (PARTITION BY str.subject, str.stretch) AS all_of
        FROM stretched str
    ), cut AS MATERIALIZED (
        SELECT cou.subject, cou.t, cou.lon, cou.lat,
            count(*) FILTER (WHERE cou.nth <= 6 OR cou.nth > cou.all_of - 5) OVER (PARTITION BY cou.subject ORDER BY cou.t) AS part
        FROM counted cou
    ), parts AS (
        SELECT cut.subject, cut.part, count(*) AS fixes, min(ARRAY[cut.t, cut.lon, cut.lat]) AS first, max(ARRAY[cut.t, cut.lon, cut.lat]) AS last
        FROM cut GROUP BY cut.subject, cut.part
    ), chosen AS (
        SELECT par.subject, unnest(dbanon_internal.choose_longest_chain(array_agg(par.fixes ORDER BY par.part), array_agg(par.first ORDER BY par.part),
            array_agg(par.last ORDER BY par.part), asked.max_speed_kmh)) AS part
        FROM parts par GROUP BY par.subject
    ), fast AS MATERIALIZED (
        SELECT cut.subject, cut.t FROM cut WHERE NOT EXISTS (SELECT FROM chosen WHERE chosen.subject = cut.subject AND chosen.part = cut.part)
    )
    UPDATE pg_temp.dbanon_staged sta SET reason = 'too-fast' FROM fast WHERE sta.subject = fast.subject AND sta.t = fast.t;
END
$$;
COMMENT ON FUNCTION dbanon_internal.mark_too_fast IS
'Marks the staged fixes without which no subject would be faster than asked for, beside what is stored. Raises an error if the reference system is unknown.';
