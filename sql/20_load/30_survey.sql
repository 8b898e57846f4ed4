-- A look at all staged fixes together: where they are, which axis is which, and which lie far outside the rest.
--
-- Decides from 100,000 fixes evenly drawn, so that judging takes no longer for more, and from the places among them rather than the
-- fixes: a cab that is parked all week is one place, and so is every fix that a broken receiver put at zero degrees. A fix lies far
-- outside the rest where, on either axis or in time, it is further from the middle 96 percent of the places (or minutes) than three
-- times their extent, and than a kilometre (or a day). With few places the middle is taken narrower, so that a single wild one is no
-- part of it (dbanon_internal.find_middle_span).

CREATE OR REPLACE FUNCTION dbanon_internal.draw_sample(
    staged bigint, most integer DEFAULT 100000, OUT x double precision[], OUT y double precision[], OUT t double precision[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Numbers that would overflow are cut off. They stay as far outside, or as near zero, as before.
    SELECT array_agg(CASE WHEN abs(s.x) < 1e-9 THEN 0 ELSE greatest(least(s.x, 1e100), -1e100) END),
        array_agg(CASE WHEN abs(s.y) < 1e-9 THEN 0 ELSE greatest(least(s.y, 1e100), -1e100) END),
        array_agg(CASE WHEN abs(s.t) < 1e-9 THEN 0 ELSE s.t END)
    INTO x, y, t
    FROM pg_temp.dbanon_staged s TABLESAMPLE BERNOULLI (least(100, 100.0 * most / greatest(staged, 1))) REPEATABLE (1);
END
$$;
COMMENT ON FUNCTION dbanon_internal.draw_sample IS 'Draws some of the staged fixes, all of them where there are few.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_distinct_places(
    x double precision[], y double precision[], side double precision, OUT xs double precision[], OUT ys double precision[])
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(p.x), array_agg(p.y)
    FROM (SELECT DISTINCT round(f.x / side) * side AS x, round(f.y / side) * side AS y FROM unnest(x, y) f (x, y)) p
$$;
COMMENT ON FUNCTION dbanon_internal.find_distinct_places IS 'Finds the places among positions.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_axis_order_bounds(x double precision[], y double precision[], unit double precision) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
    lesser record;
    greatest_of record;
    folded record;
    most record;
    x_is_greater boolean;
    sides record;
BEGIN
    -- The lesser and the greater coordinate of a fix do not depend on which is called x. If the middle of all the lesser ones ends
    -- before that of the greater ones begins, no fix is its own mirror image.
    SELECT places.* INTO folded
    FROM (SELECT array_agg(least(fix.x, fix.y)) AS lesser, array_agg(greatest(fix.x, fix.y)) AS greater FROM unnest(x, y) fix (x, y)) sorted
    CROSS JOIN LATERAL dbanon_internal.find_distinct_places(sorted.lesser, sorted.greater, 100 * unit) places;
    lesser := dbanon_internal.find_middle_span(folded.xs, 0);
    greatest_of := dbanon_internal.find_middle_span(folded.ys, 0);
    -- Those spans are seven times as long as the middles, whose ends are multiples of 100 units.
    IF NOT (3 * lesser.low + 4 * lesser.high) / 7 + 50 * unit < (4 * greatest_of.low + 3 * greatest_of.high) / 7 THEN
        RETURN NULL;
    END IF;
    -- The order that most fixes have is taken to be the right one.
    SELECT 2 * count(*) FILTER (WHERE fix.x > fix.y) > count(*) INTO x_is_greater FROM unnest(x, y) fix (x, y);
    -- Bounds of those fixes alone; the others would have to lie there too, once swapped.
    SELECT places.* INTO most
    FROM (SELECT array_agg(fix.x) AS x, array_agg(fix.y) AS y FROM unnest(x, y) fix (x, y) WHERE (fix.x > fix.y) = x_is_greater) pos
    CROSS JOIN LATERAL dbanon_internal.find_distinct_places(pos.x, pos.y, 100 * unit) places;
    SELECT wide.low AS west, wide.high AS east, high.low AS south, high.high AS north INTO sides
    FROM dbanon_internal.find_middle_span(most.xs, 1000 * unit) wide, dbanon_internal.find_middle_span(most.ys, 1000 * unit) high;
    RETURN jsonb_build_object('x', jsonb_build_array(sides.west, sides.east), 'y', jsonb_build_array(sides.south, sides.north),
                              'x_is_greater', x_is_greater);
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_axis_order_bounds IS
'Finds where the fixes are that have x and y as most have, if the two cannot be mistaken for each other.';

CREATE OR REPLACE FUNCTION dbanon_internal.survey_shape(
    x double precision[], y double precision[], t double precision[], geographic boolean) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
    unit double precision := CASE WHEN geographic THEN 1 / 111000.0 ELSE 1 END;
    home jsonb := dbanon_internal.find_axis_order_bounds(x, y, unit);
    xs double precision[] := x;
    ys double precision[] := y;
    centre double precision;
    places record;
    wide record;
    high record;
    late record;
    middle record;
BEGIN
    -- Single fixes with swapped axes are turned round for the survey, so that they do not widen the middle.
    IF home IS NOT NULL THEN
        SELECT array_agg(CASE WHEN turned.swapped THEN turned.y ELSE turned.x END),
            array_agg(CASE WHEN turned.swapped THEN turned.x ELSE turned.y END) INTO xs, ys
        FROM (SELECT fix.x, fix.y, fix.y BETWEEN box.west AND box.east AND fix.x BETWEEN box.south AND box.north
                     AND CASE WHEN box.x_is_greater THEN fix.x < fix.y ELSE fix.x > fix.y END AS swapped
              FROM unnest(x, y) fix (x, y)
              CROSS JOIN (SELECT (home #> '{x,0}')::float8 AS west, (home #> '{x,1}')::float8 AS east,
                                 (home #> '{y,0}')::float8 AS south, (home #> '{y,1}')::float8 AS north,
                                 (home -> 'x_is_greater')::boolean AS x_is_greater OFFSET 0) box) turned;
    END IF;
    IF geographic THEN
        -- Mean of longitudes as directions, so that the antimeridian is a place like any other.
        SELECT degrees(atan2(avg(sin(radians(ele.x))), avg(cos(radians(ele.x))))) INTO centre FROM unnest(xs) ele (x);
        xs := ARRAY(SELECT ele.x - 360 * round((ele.x - centre) / 360) FROM unnest(xs) ele (x));
    END IF;
    -- Places of 100 m are counted in space, and minutes in time; see the top of this file.
    places := dbanon_internal.find_distinct_places(xs, ys, 100 * unit);
    wide := dbanon_internal.find_middle_span(places.xs, 1000 * unit);
    high := dbanon_internal.find_middle_span(places.ys, 1000 * unit);
    late := dbanon_internal.find_middle_span(ARRAY(SELECT DISTINCT floor(ele.t / 60) * 60 FROM unnest(t) ele (t)), 86400);
    -- The median of what lies in the middle: its longitude and latitude decide the reference system.
    SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY fix.x) AS x, percentile_cont(0.5) WITHIN GROUP (ORDER BY fix.y) AS y INTO middle
    FROM unnest(xs, ys) fix (x, y) WHERE fix.x BETWEEN wide.low AND wide.high AND fix.y BETWEEN high.low AND high.high;
    RETURN jsonb_build_object(
        'x', jsonb_build_array(wide.low, wide.high), 'y', jsonb_build_array(high.low, high.high),
        't', jsonb_build_array(late.low, late.high), 'middle', jsonb_build_array(middle.x, middle.y), 'turns', geographic,
        'home', home);
END
$$;
COMMENT ON FUNCTION dbanon_internal.survey_shape IS 'Finds the bounds of what is not far outside the rest.';

CREATE OR REPLACE FUNCTION dbanon_internal.lies_in_span(place double precision, span jsonb, turns boolean) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN place BETWEEN (span -> 0)::float8 AND (span -> 1)::float8
    OR turns AND (place BETWEEN (span -> 0)::float8 - 360 AND (span -> 1)::float8 - 360
        OR place BETWEEN (span -> 0)::float8 + 360 AND (span -> 1)::float8 + 360);
COMMENT ON FUNCTION dbanon_internal.lies_in_span IS 'Says whether a value lies in a span; one of degrees also a turn away.';

CREATE OR REPLACE FUNCTION dbanon_internal.is_far(x double precision, y double precision, shape jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN NOT (dbanon_internal.lies_in_span(x, shape -> 'x', (shape -> 'turns')::boolean) AND dbanon_internal.lies_in_span(y, shape -> 'y', false));
COMMENT ON FUNCTION dbanon_internal.is_far IS 'Says whether a fix lies far outside what dbanon_internal.survey_shape found: on one axis is enough.';

CREATE OR REPLACE FUNCTION dbanon_internal.is_late(t double precision, shape jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN NOT dbanon_internal.lies_in_span(t, shape -> 't', false);
COMMENT ON FUNCTION dbanon_internal.is_late IS 'Says whether a time lies far outside the rest.';

CREATE OR REPLACE FUNCTION dbanon_internal.is_swapped(x double precision, y double precision, shape jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
-- Where the axes cannot be mistaken, swapped ones are found by their order.
RETURN CASE WHEN shape -> 'home' = 'null'
    THEN dbanon_internal.is_far(x, y, shape) AND dbanon_internal.lies_in_span(y, shape -> 'x', (shape -> 'turns')::boolean)
        AND dbanon_internal.lies_in_span(x, shape -> 'y', false)
    ELSE CASE WHEN (shape #> '{home,x_is_greater}')::boolean THEN x < y ELSE x > y END
        AND dbanon_internal.lies_in_span(y, shape #> '{home,x}', false) AND dbanon_internal.lies_in_span(x, shape #> '{home,y}', false) END;
COMMENT ON FUNCTION dbanon_internal.is_swapped IS 'Says whether a fix has x and y the wrong way round.';

-- Both functions have plans made for the survey at hand; the setting reaches all that is called, so nothing that they write has foreign keys.
CREATE OR REPLACE FUNCTION dbanon_internal.leave_out_wild(cells jsonb, survey jsonb, drop_outliers boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1
SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    WITH gone AS (
        DELETE FROM pg_temp.dbanon_staged sta
        WHERE dbanon_internal.is_swapped(sta.x, sta.y, survey)
            OR drop_outliers AND (dbanon_internal.is_far(sta.x, sta.y, survey) OR dbanon_internal.is_late(sta.t, survey)) RETURNING sta.*)
    INSERT INTO pg_temp.dbanon_rejected
    SELECT gone.file, gone.line, CASE WHEN dbanon_internal.is_swapped(gone.x, gone.y, survey) THEN 'swapped-axes'
            WHEN dbanon_internal.is_far(gone.x, gone.y, survey) THEN 'far-position' ELSE 'far-time' END, cop.content, gone.t
    FROM gone CROSS JOIN LATERAL dbanon_internal.copy_staged(cells, gone.subject, gone.trip, gone.t, gone.x, gone.y, gone.shape) cop;
END
$$;
COMMENT ON FUNCTION dbanon_internal.leave_out_wild IS 'Leaves out staged fixes that have their axes swapped, and perhaps those far outside the rest.';

CREATE OR REPLACE FUNCTION dbanon_internal.count_kept(
    survey jsonb, OUT kept bigint, OUT first_time timestamptz, OUT last_time timestamptz, OUT far jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    SELECT count(*), to_timestamp(min(sta.t)), to_timestamp(max(sta.t)), jsonb_strip_nulls(jsonb_build_object(
        'far-position', nullif(count(*) FILTER (WHERE dbanon_internal.is_far(sta.x, sta.y, survey)), 0),
        'far-time', nullif(count(*) FILTER (WHERE dbanon_internal.is_late(sta.t, survey) AND NOT dbanon_internal.is_far(sta.x, sta.y, survey)), 0),
        'too-fast', nullif(count(*) FILTER (WHERE sta.reason = 'too-fast'), 0)))
    INTO kept, first_time, last_time, far FROM pg_temp.dbanon_staged sta;
END
$$;
COMMENT ON FUNCTION dbanon_internal.count_kept IS 'Counts the staged fixes that are kept, and those of them that lie far outside the rest, by reason.';

-- ---- where that is on Earth

CREATE OR REPLACE FUNCTION dbanon_internal.measure_degrees_apart(lon double precision, other double precision) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT abs(lon - other - 360 * floor((lon - other + 180) / 360))
$$;
COMMENT ON FUNCTION dbanon_internal.measure_degrees_apart IS 'How far two longitudes are apart, the short way round.';

CREATE OR REPLACE FUNCTION dbanon_internal.try_degrees(
    x double precision, y double precision, source_srid integer, geographic boolean, OUT lon double precision, OUT lat double precision)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place @postgis@.geometry;
BEGIN
    place := @postgis@.ST_Transform(@postgis@.ST_SetSRID(@postgis@.ST_MakePoint(
        CASE WHEN geographic THEN x - 360 * floor((x + 180) / 360) ELSE x END, y), source_srid), 4326);
    IF abs(@postgis@.ST_X(place)) <= 360 AND abs(@postgis@.ST_Y(place)) <= 90 THEN
        lon := @postgis@.ST_X(place);
        lat := @postgis@.ST_Y(place);
    END IF;
EXCEPTION WHEN internal_error THEN
    NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.try_degrees IS 'Longitude and latitude of a place.';

CREATE OR REPLACE FUNCTION dbanon_internal.refuse_axes(remedy text) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'x must be the longitude or easting and y the latitude or northing.'
        USING ERRCODE = 'DA011', DETAIL = 'The positions are where they should be only if the two are exchanged.', HINT = remedy;
END
$$;
COMMENT ON FUNCTION dbanon_internal.refuse_axes IS 'Refuses a source whose x and y are the wrong way round.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_utm_zone(lon double precision, lat double precision) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN lat >= 0 THEN 32600 ELSE 32700 END + least(floor((lon + 180) / 6)::integer + 1, 60)
$$;
COMMENT ON FUNCTION dbanon_internal.find_utm_zone IS 'The SRID of the UTM zone of a place on WGS 84.';

CREATE OR REPLACE FUNCTION dbanon_internal.survey_place(shape jsonb, crs text, target integer, remedy text) RETURNS integer
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    reference_system CONSTANT record := dbanon_internal.demand_reference_system(crs);
    middle CONSTANT jsonb := shape -> 'middle';
    place record := dbanon_internal.try_degrees((middle ->> 0)::float8, (middle ->> 1)::float8, reference_system.srid, reference_system.geographic);
    swapped record;
    meridian double precision;
BEGIN
    -- Metres far from the meridian of their reference system, and near it if swapped: the axes are swapped.
    IF NOT reference_system.geographic AND (place.lon IS NULL OR dbanon_internal.measure_degrees_apart(place.lon, reference_system.meridian) > 15) THEN
        swapped := dbanon_internal.try_degrees((middle ->> 1)::float8, (middle ->> 0)::float8, reference_system.srid, reference_system.geographic);
        IF dbanon_internal.measure_degrees_apart(swapped.lon, reference_system.meridian) < 6 THEN
            PERFORM dbanon_internal.refuse_axes(remedy);
        END IF;
    END IF;
    IF place.lon IS NULL THEN
        RAISE EXCEPTION 'Positions must be in the reference system of the source. Their median is outside the area of SRID %.', reference_system.srid
            USING ERRCODE = 'DA011', DETAIL = 'No longitude and latitude can be found for it.',
                  HINT = 'Give the right one, for example crs => ''EPSG:4326'', or srid => ... for the dataset''s own.';
    END IF;
    -- Swapped degrees are valid degrees elsewhere. The dataset's reference system says where they should be.
    target := coalesce(target, dbanon_internal.find_utm_zone(place.lon, place.lat));
    meridian := (dbanon_internal.demand_reference_system('EPSG:' || target)).meridian;
    IF reference_system.geographic AND abs(place.lon) <= 90 AND dbanon_internal.measure_degrees_apart(place.lat, meridian) < 6
        AND dbanon_internal.measure_degrees_apart(place.lon, meridian) > 15 THEN
        PERFORM dbanon_internal.refuse_axes(remedy);
    END IF;
    RETURN target;
END
$$;
COMMENT ON FUNCTION dbanon_internal.survey_place IS
'The reference system of the dataset: the one given, else the UTM zone of the staged fixes. Raises an error if they lie outside the area of theirs, or
if x and y are swapped.';

-- ---- what becomes of it

CREATE OR REPLACE FUNCTION dbanon_internal.find_honest_time(shape jsonb, t double precision[]) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    -- A clock that was ahead shows by a gap of more than a day, which is what the next load reads again; few rows lie beyond it.
    WITH bound AS MATERIALIZED (
        SELECT (shape #> '{t,0}')::float8 AS low, least((shape #> '{t,1}')::float8, extract(epoch FROM now())::float8) AS high
    ), hour AS (
        SELECT min(ele.t) AS first, max(ele.t) AS last, count(*) AS fixes FROM bound CROSS JOIN unnest(t) ele (t)
        WHERE ele.t BETWEEN bound.low AND bound.high GROUP BY floor(ele.t / 3600)
    ), step AS (
        SELECT hour.last, hour.first, lag(hour.last) OVER w AS before, sum(hour.fixes) OVER (ORDER BY hour.first DESC) AS beyond,
            sum(hour.fixes) OVER () AS total_fixes
        FROM hour WINDOW w AS (ORDER BY hour.first))
    SELECT to_timestamp(coalesce(min(step.before) FILTER (WHERE step.beyond < 0.1 * step.total_fixes AND step.first > step.before + 86400), max(step.last)))
    FROM step
$$;
COMMENT ON FUNCTION dbanon_internal.find_honest_time IS
'The newest of the times in a sample of a load that a clock without faults can have said; NULL where there is none.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_far(n bigint, what text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('%s kept: load with drop_outliers => true to leave %s out',
                  dbanon_internal.format_quantity(n, what || ' lies far outside the rest and was', what || 's lie far outside the rest and were'),
                  CASE n WHEN 1 THEN 'it' ELSE 'them' END)
        || CASE what WHEN 'position' THEN ', or keep to an area (bbox => ...).' ELSE '.' END
    WHERE n > 0
$$;
COMMENT ON FUNCTION dbanon_internal.describe_far IS 'Words what was kept although it lies far outside the rest.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_stretch(
    x double precision[], y double precision[], shape jsonb, crs text, target integer) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
    meridian double precision := (dbanon_internal.demand_reference_system('EPSG:' || target)).meridian;
    share double precision;
BEGIN
    IF NOT (dbanon_internal.demand_reference_system(crs)).geographic THEN RETURN NULL; END IF;
    -- The share of positions in the sample outside the zone, of those whose latitude lies in the middle.
    SELECT avg((abs(fix.x - meridian - 360 * floor((fix.x - meridian + 180) / 360)) > 6)::integer) INTO share
    FROM unnest(x, y) fix (x, y) WHERE fix.y BETWEEN (shape #> '{y,0}')::float8 AND (shape #> '{y,1}')::float8;
    RETURN CASE WHEN share > 0.01 THEN format(
        '%s%% of the positions lie more than 6 degrees from the meridian of SRID %s, where its metres are too long. Load each area as a separate '
        'dataset, or choose another (srid => ...).', round(100 * share), target) END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.describe_stretch IS 'Words that a reference system is stretched too far. Raises an error if a reference system is unknown.';
