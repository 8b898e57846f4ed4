-- From a table, or from what was staged of files, to trajectories and sites; all of it in the transaction and with the rights of
-- whoever calls. A row is either part of what is stored or in dbanon.quarantine with a reason, never neither and never both. No message
-- holds a coordinate or a subject.

-- ---- trajectories

CREATE OR REPLACE FUNCTION dbanon_internal.finish_load(
    dataset text, mode text, crs text, srid integer, grid_m double precision, grid_s integer, split_gap_s double precision,
    drop_outliers boolean, sources text[], rows_read bigint[], cells jsonb, alone boolean, swap_remedy text, remedy text)
RETURNS TABLE (load_id bigint, file_rows bigint, rows_kept bigint, quarantined jsonb, trajectories bigint, subjects bigint,
    target integer, first_time timestamptz, last_time timestamptz, far jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    every CONSTANT bigint := (SELECT sum(r.n) FROM unnest(rows_read) r (n));
    meant CONSTANT record := dbanon_internal.reference_system(crs);
    content CONSTANT text := dbanon_internal.staged_content(cells);
    newest CONSTANT bigint := (SELECT coalesce(max(r.trajectory_id), 0) FROM dbanon.trajectory r);
    sample record;
    shape jsonb;
    middle record;
    into_dataset bigint;
    shapes bigint;
    copies text;
BEGIN
    PERFORM dbanon_internal.refuse_swapped(rows_read, swap_remedy);
    PERFORM dbanon_internal.demand_some(every, remedy);
    PERFORM dbanon_internal.say('looking for wild positions');
    sample := dbanon_internal.draw_sample((SELECT count(*) FROM pg_temp.dbanon_staged));
    shape := dbanon_internal.survey_shape(sample.x, sample.y, sample.t, meant.geographic);
    middle := dbanon_internal.survey_place(shape, crs, swap_remedy);
    target := coalesce(CASE WHEN mode = 'append' THEN (dbanon_internal.known_dataset(dataset)).srid ELSE srid END,
                       dbanon_internal.utm_zone(middle.lon, middle.lat));
    PERFORM dbanon_internal.check_axes(crs, target, middle.lon, middle.lat, swap_remedy);
    PERFORM dbanon_internal.sort_out(shape, drop_outliers, content);
    PERFORM dbanon_internal.refuse_swapped(rows_read, swap_remedy);
    into_dataset := dbanon_internal.write_dataset(dataset, mode, target, grid_m, grid_s);
    PERFORM dbanon_internal.say('making trajectories');
    SELECT count(s.shape) INTO shapes FROM pg_temp.dbanon_staged s;
    SELECT m.trajectories, m.subjects INTO trajectories, subjects FROM dbanon_internal.make_trajectories(
        into_dataset, meant.srid, target, split_gap_s, mode = 'append', shapes > 0, content) m;
    PERFORM dbanon_internal.demand_some(every, remedy);
    copies := CASE WHEN alone THEN dbanon_internal.copies_notice(into_dataset, newest) END;
    SELECT to_timestamp(min(o.t)), to_timestamp(max(o.t)) INTO first_time, last_time FROM pg_temp.dbanon_ordered o WHERE o.kept;
    far := dbanon_internal.kept_far(shape);
    PERFORM dbanon_internal.tell(dbanon_internal.far_notice((far ->> 'far-position')::bigint, 'position'));
    PERFORM dbanon_internal.tell(dbanon_internal.far_notice((far ->> 'far-time')::bigint, 'time'));
    PERFORM dbanon_internal.tell(dbanon_internal.stretched_notice(sample.x, sample.y, shape, crs, target));
    PERFORM dbanon_internal.tell(dbanon_internal.shapes_notice(shapes));
    PERFORM dbanon_internal.tell(copies);
    FOR load_id, file_rows, rows_kept, quarantined IN SELECT w.* FROM dbanon_internal.write_load(into_dataset, 'trajectories', sources, rows_read) w LOOP
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.finish_load(
    text, text, text, integer, double precision, integer, double precision, boolean, text[], bigint[], jsonb, boolean, text, text) IS
'Makes trajectories of what was staged since dbanon_internal.begin_load, and the record of it.';

CREATE OR REPLACE FUNCTION dbanon_internal.shapes_notice(shapes bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    -- Somebody's lines may have been meant as trajectories.
    SELECT CASE shapes WHEN 1 THEN '1 row holds a line or an area; it' ELSE dbanon_internal.grouped(shapes) || ' rows hold lines or areas; each' END
        || ' became the rectangle around it, at one time. Take lines of positions apart with ST_DumpPoints in a view and import that.'
    WHERE shapes > 0
$$;
COMMENT ON FUNCTION dbanon_internal.shapes_notice(bigint) IS
'Words what became of lines and areas.';

CREATE OR REPLACE FUNCTION dbanon_internal.stage_fixes(
    source regclass, subject text, "time" text, geom text, trip text, tz text, source_srid integer, geographic boolean,
    first_number bigint, bbox double precision[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    described record := dbanon_internal.describe_source(source, array_remove(ARRAY[nullif(subject, '-'), "time", geom, trip], NULL), nullif(subject, '-'));
    place text := format('jsonb_build_object(%s)', (
        SELECT string_agg(DISTINCT format('%L::text, %s', c.name, c.told), ', ')
        FROM (VALUES (nullif(subject, '-'), 'raw_subject'), ("time", 'raw_time'), (geom, '@postgis@.ST_AsText(raw_geom)'),
                     (CASE WHEN trip <> subject THEN trip END, 'raw_trip')) c (name, told)
        WHERE c.name IS NOT NULL));
    rows_read bigint;
BEGIN
    rows_read := dbanon_internal.stage_source(format(
        'INSERT INTO pg_temp.dbanon_staged (file, line, subject, trip, t, x, y, shape, reason, content) '
        'SELECT 0, line, subject, trip, t, x, y, CASE WHEN NOT is_point THEN raw_geom END, reason, '
        '    CASE WHEN reason IS NOT NULL THEN %1$s END '
        'FROM (SELECT *, CASE %2$s END AS reason '
        '      FROM (SELECT line, raw_subject, raw_time::text, raw_geom, raw_trip, %3$s AS subject, %4$s AS trip, %5$s AS t, is_point, '
        '                @postgis@.ST_SRID(raw_geom) AS srid, '
        '                CASE WHEN is_point THEN @postgis@.ST_X(raw_geom) WHEN dbanon_internal.is_endless(raw_geom) THEN ''NaN'' ELSE %6$s END AS x, '
        '                CASE WHEN is_point THEN @postgis@.ST_Y(raw_geom) WHEN dbanon_internal.is_endless(raw_geom) THEN ''NaN'' ELSE %7$s END AS y '
        '            FROM (SELECT row_number() OVER () AS line, *, @postgis@.GeometryType(raw_geom) LIKE ''POINT%%'' AS is_point '
        '                  FROM (SELECT %8$s AS raw_subject, %9$I AS raw_time, %10$I::@postgis@.geometry AS raw_geom, %11$s AS raw_trip '
        '                        FROM %12$s) raw) numbered OFFSET 0) meant OFFSET 0) judged',
        place,
        concat_ws(' ', dbanon_internal.event_reasons(), dbanon_internal.name_reasons('trip'), dbanon_internal.position_reasons(source_srid, geographic), dbanon_internal.box_reasons(bbox)),
        CASE subject WHEN '-' THEN format('lpad((%s + line - 1)::text, 12, ''0'')', first_number) ELSE dbanon_internal.text_expression('raw_subject') END,
        dbanon_internal.text_expression('raw_trip'),
        dbanon_internal.time_expression('raw_time', described.qualified, described.types, "time", tz),
        dbanon_internal.middle_expression('raw_geom', 'x', geographic), dbanon_internal.middle_expression('raw_geom', 'y', geographic),
        CASE subject WHEN '-' THEN 'NULL::text' ELSE format('%I::text', subject) END, "time", geom,
        CASE WHEN trip IS NULL THEN 'NULL::text' ELSE format('%I::text', trip) END,
        described.qualified), described.qualified);
    PERFORM dbanon_internal.leave_out('reason IS NOT NULL', 'reason', 'content');
    RETURN rows_read;
END
$$;
COMMENT ON FUNCTION dbanon_internal.stage_fixes(regclass, text, text, text, text, text, integer, boolean, bigint, double precision[]) IS
'Copies the usable rows of a table into dbanon_staged, the others into dbanon_rejected.';

CREATE OR REPLACE FUNCTION dbanon_internal.check_columns(subject text, "time" text, geom text, trip text) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM dbanon_internal.check_differ(ARRAY[subject, "time", geom], 'subject, time and geometry');
    IF '-' IN ("time", geom, trip) THEN
        RAISE EXCEPTION 'Only the subject can be ''-''. Got it for another column.'
            USING ERRCODE = 'DA011', DETAIL = 'It makes every row a subject of its own.', HINT = 'Name that column.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.check_columns(text, text, text, text) IS
'Refuses columns of which one is to be two things, or of which another than the subject''s is ''-''.';

CREATE OR REPLACE FUNCTION dbanon_internal.check_uncut(trip text, split_gap_s double precision) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (trip IS NOT NULL OR split_gap_s IS NOT NULL) AND EXISTS (SELECT FROM pg_temp.dbanon_staged s WHERE s.shape IS NOT NULL) THEN
        RAISE EXCEPTION 'Where a table holds lines or areas, each row is a trajectory of one fix, which cannot be cut. Got %.',
                CASE WHEN trip IS NULL THEN format('split_gap_s => %s', split_gap_s) ELSE format('trip => %L', trip) END
            USING ERRCODE = 'DA011', DETAIL = 'A line or an area becomes the rectangle around it, at one time.',
                  HINT = 'Leave it out, or take lines apart with ST_DumpPoints in a view and import that.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.check_uncut(text, double precision) IS
'Refuses to cut trajectories each of which is a single fix.';

CREATE OR REPLACE FUNCTION dbanon_internal.import_fixes(
    source regclass, dataset text, subject text, "time" text, geom text, trip text, crs text, srid integer, grid_m double precision,
    grid_s integer, mode text, split_gap_s double precision, tz text, bbox double precision[], drop_outliers boolean)
RETURNS TABLE (load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb, trajectories bigint, subjects bigint,
    target integer, first_time timestamptz, last_time timestamptz, far jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    described record;
    meant text;
    begun record;
    every bigint;
BEGIN
    PERFORM dbanon_internal.check_columns(subject, "time", geom, trip);
    PERFORM dbanon_internal.check_zone(tz);
    described := dbanon_internal.describe_source(source, array_remove(ARRAY[nullif(subject, '-'), "time", geom, trip], NULL), nullif(subject, '-'));
    PERFORM dbanon_internal.check_geometry(described.types, geom);
    meant := coalesce(crs, dbanon_internal.source_crs(described.qualified, geom));
    begun := dbanon_internal.begin_load(dataset, mode, meant, srid, grid_m, grid_s, split_gap_s, bbox);
    PERFORM dbanon_internal.say('reading ' || described.qualified);
    every := dbanon_internal.stage_fixes(source, subject, "time", geom, trip, tz, begun.source_srid, begun.geographic, begun.first_number, bbox);
    PERFORM dbanon_internal.check_uncut(trip, split_gap_s);
    RETURN QUERY SELECT * FROM dbanon_internal.finish_load(
        dataset, mode, meant, srid, grid_m, grid_s, split_gap_s, coalesce(drop_outliers, false),
        ARRAY['table ' || described.qualified], ARRAY[every],
        jsonb_build_object("time", 't', geom, 'place') || CASE WHEN trip IS NULL THEN '{}' ELSE jsonb_build_object(trip, 'trip') END
            || CASE subject WHEN '-' THEN '{}' ELSE jsonb_build_object(subject, 'subject') END,
        subject = '-',
        format('The geometries of column ''%s'' have them the other way round; swap them in a view, with ST_FlipCoordinates, and '
               'import that.', geom),
        'Check which columns are named, crs, bbox and the times.');
END
$$;
COMMENT ON FUNCTION dbanon_internal.import_fixes(
    regclass, text, text, text, text, text, text, integer, double precision, integer, text, double precision, text, double precision[],
    boolean) IS
'Does the work of dbanon.import_trajectories.';

CREATE OR REPLACE FUNCTION dbanon.import_trajectories(
    source regclass, dataset text, subject text DEFAULT 'subject', "time" text DEFAULT 'time', geom text DEFAULT 'geom',
    trip text DEFAULT NULL, crs text DEFAULT NULL, srid integer DEFAULT NULL, grid_m double precision DEFAULT 1, grid_s integer DEFAULT 1,
    mode text DEFAULT 'create', split_gap_s double precision DEFAULT NULL, tz text DEFAULT NULL, bbox double precision[] DEFAULT NULL,
    drop_outliers boolean DEFAULT false)
RETURNS TABLE (load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb, trajectories bigint, subjects bigint,
    srid integer, first_time timestamptz, last_time timestamptz, far jsonb)
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    -- In PL/pgSQL no result could be called srid, as an argument is.
    SELECT * FROM dbanon_internal.import_fixes(
        source, dataset, subject, "time", geom, trip, crs, srid, grid_m, grid_s, mode, split_gap_s, tz, bbox, drop_outliers)
$$;
COMMENT ON FUNCTION dbanon.import_trajectories(
    regclass, text, text, text, text, text, text, integer, double precision, integer, text, double precision, text, double precision[],
    boolean) IS
'Loads one fix a row from a table or view, which it reads with the rights of whoever calls it. Takes: source; dataset, its
name; subject, the column of the person or vehicle (''-'': every row is its own); time, that of the time: a timestamp, a
date, or a number of unix seconds or milliseconds; geom, that of the position: a point, or a shape, whose bounding rectangle
counts; trip, that which tells a subject''s trajectories apart; crs, the reference system of the geometries, else their own;
srid, a metric one for the dataset, else the UTM zone of the data; grid_m and grid_s, its grid in metres and seconds; mode:
create, append or replace; split_gap_s: trajectories are cut where more seconds lie between two fixes; tz, the zone of times
that name none; bbox, {xmin,ymin,xmax,ymax} in units of the source, outside of which rows are left out; drop_outliers: leave
out what lies far outside the rest, not only count it. Returns: load_id, the row of dbanon.load; rows_read; rows_kept;
quarantined, by reason; trajectories and subjects made; srid; first_time and last_time of the fixes kept: a wrong unit or
zone shows there; far, kept although far outside the rest, by reason. Raises: DA001, DA011, DA012, DA014, and then nothing is
stored; notices of what somebody should look at. Example: SELECT * FROM dbanon.import_trajectories(''public.gps'', dataset =>
''taxi'', subject => ''cab'', "time" => ''t'', geom => ''position'').';

-- ---- sites

CREATE OR REPLACE FUNCTION dbanon_internal.begin_sites(
    dataset text, crs text, bbox double precision[], OUT source_srid integer, OUT geographic boolean)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM dbanon_internal.lock_dataset(dataset);
    PERFORM dbanon_internal.known_dataset(dataset);
    SELECT r.srid, r.geographic INTO source_srid, geographic FROM dbanon_internal.reference_system(crs) r;
    PERFORM dbanon_internal.check_bbox(bbox, geographic);
    PERFORM dbanon_internal.make_staging('name text, x float8, y float8, shape @postgis@.geometry, geom @postgis@.geometry, reason text, content jsonb');
END
$$;
COMMENT ON FUNCTION dbanon_internal.begin_sites(text, text, double precision[]) IS
'Claims a dataset for a load of sites, checks what was asked for, and makes the staging tables.';

CREATE OR REPLACE FUNCTION dbanon_internal.place_sites(source_srid integer, target integer, dataset_id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    r record := dbanon_internal.reach(dataset_id);
BEGIN
    UPDATE pg_temp.dbanon_staged s SET geom = dbanon_internal.moved(
        @postgis@.ST_SetSRID(coalesce(s.shape, @postgis@.ST_MakePoint(s.x, s.y)), source_srid), target);
    UPDATE pg_temp.dbanon_staged s SET reason = CASE
        WHEN dbanon_internal.lies_within(dbanon_internal.moved(@postgis@.ST_FlipCoordinates(
            @postgis@.ST_SetSRID(coalesce(s.shape, @postgis@.ST_MakePoint(s.x, s.y)), source_srid)), target),
            r.west, r.east, r.south, r.north) THEN 'swapped-axes'
        WHEN s.geom IS NULL THEN 'position-out-of-range' ELSE 'far-position' END
    WHERE dbanon_internal.lies_within(s.geom, r.west, r.east, r.south, r.north) IS NOT TRUE;
END
$$;
COMMENT ON FUNCTION dbanon_internal.place_sites(integer, integer, bigint) IS
'Reprojects the staged sites, and gives a reason to those that cannot be, have swapped axes, or lie far outside where
the trajectories are.';

CREATE OR REPLACE FUNCTION dbanon_internal.lies_within(
    place @postgis@.geometry, west double precision, east double precision, south double precision, north double precision) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT @postgis@.ST_XMin(b) >= west AND @postgis@.ST_XMax(b) <= east AND @postgis@.ST_YMin(b) >= south AND @postgis@.ST_YMax(b) <= north
    FROM (SELECT @postgis@.Box3D(place) AS b) box
$$;
COMMENT ON FUNCTION dbanon_internal.lies_within(@postgis@.geometry, double precision, double precision, double precision, double precision) IS
'Says whether the bounds of a geometry lie within others.';

CREATE OR REPLACE FUNCTION dbanon_internal.finish_sites(
    dataset text, crs text, drop_outliers boolean, replace boolean, source text, rows_read bigint, cells jsonb, swap_remedy text, remedy text,
    OUT load_id bigint, OUT rows_kept bigint, OUT quarantined jsonb, OUT far bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    known CONSTANT dbanon.dataset := dbanon_internal.known_dataset(dataset);
    content CONSTANT text := dbanon_internal.staged_content(cells);
BEGIN
    PERFORM dbanon_internal.refuse_swapped(ARRAY[rows_read], swap_remedy);
    PERFORM dbanon_internal.demand_some(rows_read, remedy);
    PERFORM dbanon_internal.say('placing sites');
    PERFORM dbanon_internal.place_sites((dbanon_internal.reference_system(crs)).srid, known.srid, known.dataset_id);
    PERFORM dbanon_internal.leave_out(CASE WHEN drop_outliers THEN 'reason IS NOT NULL' ELSE 'reason <> ''far-position''' END, 'reason', content);
    PERFORM dbanon_internal.refuse_swapped(ARRAY[rows_read], swap_remedy);
    PERFORM dbanon_internal.demand_some(rows_read, remedy);
    PERFORM dbanon_internal.say('storing sites');
    IF replace THEN
        DELETE FROM dbanon.site s WHERE s.dataset_id = known.dataset_id;
    END IF;
    -- To the millimetre, as trajectories are compared.
    PERFORM dbanon_internal.leave_out(format(
        'line IN (SELECT line FROM (SELECT line, row_number() OVER (PARTITION BY name, round(@postgis@.ST_XMin(b) * 1000), '
        'round(@postgis@.ST_YMin(b) * 1000), round(@postgis@.ST_XMax(b) * 1000), round(@postgis@.ST_YMax(b) * 1000) ORDER BY line NULLS FIRST) AS nth '
        'FROM (SELECT NULL::bigint AS line, name, @postgis@.Box3D(geom) AS b FROM dbanon.site WHERE dataset_id = %s '
        'UNION ALL SELECT line, name, @postgis@.Box3D(geom) FROM pg_temp.dbanon_staged) every) numbered WHERE nth > 1)', known.dataset_id),
        '''duplicate-site''', content);
    INSERT INTO dbanon.site (dataset_id, name, geom) SELECT known.dataset_id, s.name, s.geom FROM pg_temp.dbanon_staged s ORDER BY s.line;
    PERFORM dbanon_internal.demand_some(rows_read, remedy);
    SELECT count(s.reason) INTO far FROM pg_temp.dbanon_staged s;
    SELECT w.load_id, w.rows_kept, w.quarantined INTO load_id, rows_kept, quarantined
    FROM dbanon_internal.write_load(known.dataset_id, 'sites', ARRAY[source], ARRAY[rows_read]) w;
    PERFORM dbanon_internal.tell(CASE far WHEN 0 THEN NULL
        WHEN 1 THEN '1 site lies far outside where the trajectories are and was kept, though its rectangle would reach from there to the '
                    'users; load with drop_outliers => true to leave it out, or keep to an area (bbox => ...).'
        ELSE dbanon_internal.grouped(far) || ' sites lie far outside where the trajectories are and were kept, though their rectangles would reach '
                    'from there to the users; load with drop_outliers => true to leave them out, or keep to an area (bbox => ...).' END);
END
$$;
COMMENT ON FUNCTION dbanon_internal.finish_sites(text, text, boolean, boolean, text, bigint, jsonb, text, text) IS
'Stores what was staged since dbanon_internal.begin_sites, and the record of it.';

CREATE OR REPLACE FUNCTION dbanon_internal.stage_sites(
    qualified text, geom text, name text, source_srid integer, geographic boolean, bbox double precision[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    rows_read bigint;
BEGIN
    rows_read := dbanon_internal.stage_source(format(
        'INSERT INTO pg_temp.dbanon_staged (file, line, name, x, y, shape, reason, content) '
        'SELECT 0, line, %1$s, x, y, @postgis@.ST_Force2D(raw_geom), reason, CASE WHEN reason IS NOT NULL THEN jsonb_build_object(%2$s) END '
        'FROM (SELECT *, CASE %9$s WHEN curved THEN ''unparsable-position'' %3$s END AS reason '
        '      FROM (SELECT line, raw_name, raw_geom, @postgis@.ST_SRID(raw_geom) AS srid, curved, '
        '                CASE WHEN endless THEN ''NaN'' ELSE %4$s END AS x, CASE WHEN endless THEN ''NaN'' ELSE %5$s END AS y '
        '            FROM (SELECT row_number() OVER () AS line, *, dbanon_internal.is_endless(raw_geom) AS endless, '
        '                      @postgis@.ST_AsText(raw_geom) ~ ''CURVE|CIRCULARSTRING|SURFACE|TIN'' AS curved '
        '                  FROM (SELECT %6$s AS raw_name, %7$I::@postgis@.geometry AS raw_geom FROM %8$s) raw) numbered OFFSET 0) meant OFFSET 0) judged',
        dbanon_internal.text_expression('raw_name'),
        concat_ws(', ', CASE WHEN name IS NOT NULL THEN format('%L::text, raw_name', name) END, format('%L::text, @postgis@.ST_AsText(raw_geom)', geom)),
        dbanon_internal.position_reasons(source_srid, geographic) || dbanon_internal.box_reasons(bbox),
        dbanon_internal.middle_expression('raw_geom', 'x', geographic), dbanon_internal.middle_expression('raw_geom', 'y', geographic),
        CASE WHEN name IS NULL THEN 'NULL::text' ELSE format('%I::text', name) END, geom, qualified,
        dbanon_internal.name_reasons(dbanon_internal.text_expression('raw_name'))), qualified);
    PERFORM dbanon_internal.leave_out('reason IS NOT NULL', 'reason', 'content');
    RETURN rows_read;
END
$$;
COMMENT ON FUNCTION dbanon_internal.stage_sites(text, text, text, integer, boolean, double precision[]) IS
'Copies the usable rows of a table of sites into dbanon_staged, the others into dbanon_rejected.';

CREATE OR REPLACE FUNCTION dbanon.import_sites(
    source regclass, dataset text, geom text DEFAULT 'geom', name text DEFAULT NULL, crs text DEFAULT NULL,
    bbox double precision[] DEFAULT NULL, drop_outliers boolean DEFAULT false, replace boolean DEFAULT false)
RETURNS TABLE (load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    described record;
    meant text;
    begun record;
BEGIN
    PERFORM dbanon_internal.check_differ(CASE WHEN name IS NULL THEN ARRAY[geom] ELSE ARRAY[geom, name] END, 'geometry and name');
    described := dbanon_internal.describe_source(source, array_remove(ARRAY[geom, name], NULL));
    PERFORM dbanon_internal.check_geometry(described.types, geom);
    meant := coalesce(crs, dbanon_internal.source_crs(described.qualified, geom));
    begun := dbanon_internal.begin_sites(dataset, meant, bbox);
    PERFORM dbanon_internal.say('reading ' || described.qualified);
    rows_read := dbanon_internal.stage_sites(described.qualified, geom, name, begun.source_srid, begun.geographic, bbox);
    SELECT f.load_id, f.rows_kept, f.quarantined INTO load_id, rows_kept, quarantined
    FROM dbanon_internal.finish_sites(
        dataset, meant, coalesce(drop_outliers, false), coalesce(replace, false), 'table ' || described.qualified, rows_read,
        CASE WHEN name IS NULL THEN '{}' ELSE jsonb_build_object(name, 'name') END || jsonb_build_object(geom, 'place'),
        format('The geometries of column ''%s'' have them the other way round; swap them in a view, with ST_FlipCoordinates, and '
               'import that.', geom),
        'Check which column holds the geometries, crs and bbox.') f;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION dbanon.import_sites(regclass, text, text, text, text, double precision[], boolean, boolean) IS
'Loads one sensitive site a row from a table or view, which it reads with the rights of whoever calls it, into a dataset that
exists, beside those it has. Takes: source; dataset, its name; geom, the column of the site: a point, or a shape without
curves, whose bounding rectangle counts; name, that of its name; crs, the reference system of the geometries, else their own;
bbox, {xmin,ymin,xmax,ymax} in units of the source: sites whose middle lies outside are left out; drop_outliers: leave out
sites far outside where the trajectories are, not only count them; replace: delete the sites that are there first. Returns:
load_id, the row of dbanon.load; rows_read; rows_kept; quarantined, by reason. Raises: DA001, DA011, DA012, DA014, and then
nothing is stored; a notice of what was kept although it lies far outside. Example: SELECT * FROM
dbanon.import_sites(''public.clinics'', dataset => ''taxi'', geom => ''place'').';
