-- What a load is asked for, checked before anything is read.

CREATE OR REPLACE FUNCTION dbanon_internal.demand_different(named text[], what text) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    twice text;
BEGIN
    IF array_position(named, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'The columns of % must be named. Got NULL for one of them.', what
            USING ERRCODE = 'DA011', DETAIL = format('%s needed.', dbanon_internal.format_quantity(cardinality(named), 'column is', 'columns are')),
                  HINT = 'Name each as it is called.';
    END IF;
    SELECT ele.name INTO twice FROM unnest(named) WITH ORDINALITY ele (name, ord)
    GROUP BY ele.name HAVING count(*) > 1 ORDER BY min(ele.ord) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'The columns of % must differ. Got ''%'' twice.', what, twice
            USING ERRCODE = 'DA011', DETAIL = format('%s needed.', dbanon_internal.format_quantity(cardinality(named), 'column is', 'columns are')),
                  HINT = 'Name each as it is called.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_different IS 'Refuses columns of which one is to be two things, or one is not named.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_zone(tz text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Not by trying: AT TIME ZONE takes UTC+2 for two hours west. The list reads 600 files: 40 ms, which UTC need not wait for.
    IF tz <> 'UTC' AND NOT EXISTS (SELECT FROM pg_timezone_names z WHERE z.name = tz) THEN
        RAISE EXCEPTION 'The time zone must be a name such as Europe/Berlin or UTC. Got %.', CASE tz WHEN '' THEN 'none' ELSE dbanon_internal.quote_text(tz) END
            USING ERRCODE = 'DA011', DETAIL = 'pg_timezone_names lists those that can be used.',
                  HINT = 'Name another, for example tz => ''UTC''.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_zone IS 'Refuses a time zone that there is not.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_reference_system(
    crs text, OUT srid integer, OUT geographic boolean, OUT metric boolean, OUT meridian double precision)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    parts text[] := regexp_match(btrim(crs), '^(?:([A-Za-z]+):)?([0-9]{1,6})$');
BEGIN
    SELECT srs.srid, srs.proj4text ~ '[+]proj=longlat',
        srs.srtext ILIKE 'PROJCS%' AND srs.proj4text ~ '[+]units=m( |$)' AND srs.proj4text !~ '[+]to_meter',
        coalesce(substring(srs.proj4text from '[+]lon_0=([-0-9.]+)')::float8,
                 6 * substring(srs.proj4text from '[+]zone=([0-9]+)')::float8 - 183)
    INTO demand_reference_system.srid, geographic, metric, meridian
    FROM @postgis@.spatial_ref_sys srs
    WHERE srs.auth_srid = parts[2]::integer AND srs.auth_name = upper(coalesce(parts[1], 'EPSG'));
    IF NOT FOUND THEN
        RAISE EXCEPTION 'The reference system must be one of PostGIS''s spatial_ref_sys. Got %.',
                coalesce(dbanon_internal.quote_text(crs), 'NULL')
            USING ERRCODE = 'DA011', DETAIL = format('It lists %s.', (SELECT count(*) FROM @postgis@.spatial_ref_sys)),
                  HINT = 'Give one such as EPSG:4326.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_reference_system IS 'Looks up a reference system.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_metric(srid numeric) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT (dbanon_internal.demand_reference_system('EPSG:' || srid)).metric THEN
        RAISE EXCEPTION 'A dataset must be in a projected reference system in metres. SRID % is not.', srid
            USING ERRCODE = 'DA011', DETAIL = 'Areas and distances are those of a plane.',
                  HINT = 'Leave it out for the UTM zone of the data, or give one such as srid => 32610.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_metric IS 'Refuses a reference system in which distances are no metres on a plane.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_box(bbox double precision[], geographic boolean) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF cardinality(bbox) <> 4 OR array_ndims(bbox) <> 1 OR array_position(bbox, NULL) IS NOT NULL
        OR EXISTS (SELECT FROM unnest(bbox) ele (side) WHERE NOT abs(ele.side) < 'Infinity') OR NOT bbox[2] < bbox[4] THEN
        RAISE EXCEPTION 'A box must be XMIN,YMIN,XMAX,YMAX with YMIN below YMAX, in units of the source. Got another.'
            USING ERRCODE = 'DA011', DETAIL = format('It has %s.', dbanon_internal.format_quantity(cardinality(bbox), 'number')),
            HINT = 'Write it like bbox => ''{8,53,9,54}''.';
    ELSIF bbox[1] >= bbox[3] AND NOT geographic THEN
        RAISE EXCEPTION 'A box in metres must have XMIN below XMAX. Only one in degrees can cross the antimeridian. Got another.'
            USING ERRCODE = 'DA011', DETAIL = 'It is in units of the source.', HINT = 'Exchange its sides.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_box IS 'Refuses a box that is none.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_null_names(asked dbanon_internal.loading) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    SELECT CASE WHEN (asked).nulls IS NULL THEN ARRAY['NA', 'N/A', 'NULL', 'nan', 'None', '\N'] ELSE
        ARRAY(SELECT normalize(btrim(ele.name), NFC) FROM unnest((asked).nulls) ele (name) WHERE btrim(ele.name) <> '') END
$$;
COMMENT ON FUNCTION dbanon_internal.list_null_names IS 'The texts that a load takes for nobody where a name should be, beside the empty text.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_last_time(asked dbanon_internal.loading) RETURNS double precision
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- Clocks differ by minutes, and wrong zones by an hour or more.
    SELECT CASE WHEN (asked).allow_future THEN @last_s@ ELSE extract(epoch FROM now())::float8 + 3600 END
$$;
COMMENT ON FUNCTION dbanon_internal.find_last_time IS
'The unix second after which a time is of the future: an hour after the server''s clock, unless a load allows the future.';
