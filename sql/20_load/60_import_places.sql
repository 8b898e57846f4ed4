-- Imports of what methods read beside trajectories: points of interest, cells, requests, quasi-identifiers.
--
-- Each goes into a dataset that exists, in the session and with the rights of whoever calls it. A row of the source is either stored
-- or in dbanon.quarantine with a reason, and one that is there already adds nothing.

-- ---- places

CREATE OR REPLACE FUNCTION dbanon_internal.stage_places(
    qualified text, label text, geom text, kind text, expected_srid integer, geographic boolean) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- Z is no part of the name of a type, and M would be.
    type_name CONSTANT text := '@postgis@.GeometryType(@postgis@.ST_Force2D(raw_geom))';
    read_rows bigint;
BEGIN
    PERFORM dbanon_internal.make_staging('label text, shape @postgis@.geometry, geom @postgis@.geometry, reason text, content jsonb');
    read_rows := dbanon_internal.stage_source(format(
        'INSERT INTO pg_temp.dbanon_staged (file, line, label, shape, reason, content) '
        'SELECT 0, line, label, @postgis@.ST_SetSRID(@postgis@.ST_Force2D(raw_geom), %s), CASE %s %s %s %s END, '
        'jsonb_strip_nulls(jsonb_build_object(%L, raw_label)) || jsonb_build_object(%L, @postgis@.ST_AsText(raw_geom)) '
        'FROM (SELECT line, raw_label, raw_geom, is_point, %s AS label, @postgis@.ST_SRID(raw_geom) AS srid, '
        'CASE WHEN is_point THEN @postgis@.ST_X(raw_geom) ELSE %s END AS x, '
        'CASE WHEN is_point THEN @postgis@.ST_Y(raw_geom) ELSE %s END AS y '
        'FROM (SELECT row_number() OVER () AS line, *, @postgis@.GeometryType(raw_geom) LIKE ''POINT%%'' AS is_point '
        'FROM (SELECT %s AS raw_label, %I::@postgis@.geometry AS raw_geom FROM %s) raw) numbered OFFSET 0) meant',
        expected_srid,
        concat_ws(' ', CASE kind WHEN 'pois' THEN 'WHEN label IS NULL THEN ''missing-category''' END, dbanon_internal.name_reasons('label')),
        dbanon_internal.position_reasons(expected_srid, geographic),
        CASE kind WHEN 'cells'
            THEN format('WHEN %s NOT IN (''POLYGON'', ''MULTIPOLYGON'') THEN ''not-a-polygon''', type_name)
            ELSE format('WHEN %s !~ ''^(MULTI)?(POINT|LINESTRING|POLYGON)$'' THEN ''unparsable-position''', type_name) END,
        'WHEN NOT is_point AND EXISTS (SELECT FROM @postgis@.ST_DumpPoints(raw_geom) d WHERE NOT (abs(@postgis@.ST_X(d.geom)) '
        '< ''Infinity'' AND abs(@postgis@.ST_Y(d.geom)) < ''Infinity'')) THEN ''non-finite-position''',
        coalesce(label, ''), geom,
        dbanon_internal.text_expression('raw_label'),
        dbanon_internal.middle_expression('raw_geom', 'x', geographic),
        dbanon_internal.middle_expression('raw_geom', 'y', geographic),
        CASE WHEN label IS NULL THEN 'NULL::text' ELSE format('%I::text', label) END, geom, qualified), qualified);
    PERFORM dbanon_internal.leave_out('reason IS NOT NULL', 'reason', 'content');
    RETURN read_rows;
END
$$;
COMMENT ON FUNCTION dbanon_internal.stage_places(text, text, text, text, integer, boolean) IS
'Reads places into the staging tables, and leaves out those that cannot be used by themselves.';

CREATE OR REPLACE FUNCTION dbanon_internal.settle_places(kind text, dataset_id bigint, target integer) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET extra_float_digits = 1
AS $$
DECLARE
    near text;
BEGIN
    SELECT format('(SELECT @postgis@.ST_XMin(b) >= %L AND @postgis@.ST_XMax(b) <= %L AND @postgis@.ST_YMin(b) >= %L '
                  'AND @postgis@.ST_YMax(b) <= %L FROM (SELECT @postgis@.Box3D(%%s) AS b) box) IS TRUE',
                  r.west, r.east, r.south, r.north)
    INTO near FROM dbanon_internal.reach(dataset_id) r;
    EXECUTE format('UPDATE pg_temp.dbanon_staged SET geom = dbanon_internal.moved(shape, %s)', target);
    -- What lies far off is no mistake here, unless it would lie where the users are with x and y exchanged.
    EXECUTE format(
        'UPDATE pg_temp.dbanon_staged SET reason = CASE WHEN %s THEN ''swapped-axes'' ELSE ''position-out-of-range'' END '
        'WHERE NOT %s AND (geom IS NULL OR %1$s)',
        format(near, format('dbanon_internal.moved(@postgis@.ST_FlipCoordinates(shape), %s)', target)), format(near, 'geom'));
    IF kind = 'cells' THEN
        UPDATE pg_temp.dbanon_staged SET reason = 'invalid-polygon'
        WHERE reason IS NULL AND NOT ((@postgis@.ST_IsValidDetail(geom, 0)).valid AND @postgis@.ST_Area(geom) > 0);
    END IF;
    PERFORM dbanon_internal.leave_out('reason IS NOT NULL', 'reason', 'content');
END
$$;
COMMENT ON FUNCTION dbanon_internal.settle_places(text, bigint, integer) IS
'Reprojects the staged places, and leaves out those that cannot be, that would be where the users are only with x and y
exchanged, and cells that cover nothing or cross themselves.';

CREATE OR REPLACE FUNCTION dbanon_internal.store_places(kind text, dataset_id bigint, replace boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    relation text := CASE kind WHEN 'pois' THEN 'poi' ELSE 'cell' END;
    label text := CASE kind WHEN 'pois' THEN 'category' ELSE 'name' END;
BEGIN
    IF replace THEN
        EXECUTE format('DELETE FROM dbanon.%I WHERE dataset_id = $1', relation) USING dataset_id;
    END IF;
    -- To the millimetre. What is smaller than that has nothing left on the grid, but bounds.
    PERFORM dbanon_internal.leave_out(format(
        'line IN (SELECT line FROM (SELECT line, row_number() OVER (PARTITION BY label, round(@postgis@.ST_XMin(b) * 1000), '
        'round(@postgis@.ST_YMin(b) * 1000), round(@postgis@.ST_XMax(b) * 1000), round(@postgis@.ST_YMax(b) * 1000), '
        '@postgis@.ST_AsBinary(@postgis@.ST_Normalize(@postgis@.ST_SnapToGrid(geom, 0::double precision, 0::double precision, '
        '0.001::double precision, 0.001::double precision))) ORDER BY line NULLS FIRST) AS nth '
        'FROM (SELECT line, label, geom, @postgis@.Box3D(geom) AS b '
        'FROM (SELECT NULL::bigint AS line, %I AS label, geom FROM dbanon.%I WHERE dataset_id = %s '
        'UNION ALL SELECT line, label, geom FROM pg_temp.dbanon_staged) every_one) boxed) numbered WHERE nth > 1)',
        label, relation, dataset_id), quote_literal('duplicate-' || relation), 'content');
    EXECUTE format('INSERT INTO dbanon.%I (dataset_id, %I, geom) SELECT $1, label, geom FROM pg_temp.dbanon_staged ORDER BY line',
                   relation, label) USING dataset_id;
END
$$;
COMMENT ON FUNCTION dbanon_internal.store_places(text, bigint, boolean) IS
'Stores the staged places that the dataset has not got.';

CREATE OR REPLACE FUNCTION dbanon_internal.import_places(
    kind text, source regclass, dataset text, label text, geom text, crs text, replace boolean) RETURNS TABLE (
    load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    named text[] := CASE WHEN kind = 'cells' AND label IS NULL THEN ARRAY[geom] ELSE ARRAY[label, geom] END;
    known dbanon.dataset;
    told record;
    meant record;
    counted bigint;
    usable text := 'Check which columns are named, and crs.';
    remedy text := format('The geometries of column ''%s'' have them the other way round; swap them in a view, with '
                          'ST_FlipCoordinates, and import that.', geom);
BEGIN
    PERFORM dbanon_internal.check_differ(named, CASE kind WHEN 'pois' THEN 'category and geometry' ELSE 'name and geometry' END);
    PERFORM dbanon_internal.lock_dataset(dataset);
    known := dbanon_internal.known_dataset(dataset);
    SELECT d.* INTO told FROM dbanon_internal.describe_source(source, named) d;
    PERFORM dbanon_internal.check_geometry(told.types, geom);
    SELECT r.* INTO meant FROM dbanon_internal.reference_system(coalesce(crs, dbanon_internal.source_crs(told.qualified, geom))) r;
    counted := dbanon_internal.stage_places(told.qualified, label, geom, kind, meant.srid, meant.geographic);
    PERFORM dbanon_internal.refuse_swapped(ARRAY[counted], remedy);
    PERFORM dbanon_internal.demand_some(counted, usable);
    PERFORM dbanon_internal.settle_places(kind, known.dataset_id, known.srid);
    PERFORM dbanon_internal.refuse_swapped(ARRAY[counted], remedy);
    PERFORM dbanon_internal.demand_some(counted, usable);
    PERFORM dbanon_internal.store_places(kind, known.dataset_id, replace);
    PERFORM dbanon_internal.demand_some(counted, usable);
    RETURN QUERY SELECT w.load_id, w.file_rows, w.rows_kept, w.quarantined
        FROM dbanon_internal.write_load(known.dataset_id, kind, ARRAY['table ' || told.qualified], ARRAY[counted]) w;
END
$$;
COMMENT ON FUNCTION dbanon_internal.import_places(text, regclass, text, text, text, text, boolean) IS
'What dbanon.import_pois and dbanon.import_cells do.';

CREATE OR REPLACE FUNCTION dbanon.import_pois(
    source regclass, dataset text, category text, geom text DEFAULT 'geom', crs text DEFAULT NULL, replace boolean DEFAULT false)
RETURNS TABLE (load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb)
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT * FROM dbanon_internal.import_places('pois', source, dataset, category, geom, crs, replace)
$$;
COMMENT ON FUNCTION dbanon.import_pois(regclass, text, text, text, text, boolean) IS
'Imports points of interest from a table or view into a dataset that exists; adds to those that are there. Takes: source;
dataset, its name; category, the column that says what kind of place it is; geom, the column of geometries (points, lines or
polygons); crs, their reference system, where they do not name it; replace, whether to delete those that are there first.
Returns: a row: load_id; rows_read; rows_kept; quarantined, the rows left out by reason. Raises: DA001, DA011, DA012, DA014.
Example: SELECT * FROM dbanon.import_pois(''public.shops'', dataset => ''taxi'', category => ''kind'').';

CREATE OR REPLACE FUNCTION dbanon.import_cells(
    source regclass, dataset text, geom text DEFAULT 'geom', name text DEFAULT NULL, crs text DEFAULT NULL,
    replace boolean DEFAULT false)
RETURNS TABLE (load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb)
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT * FROM dbanon_internal.import_places('cells', source, dataset, import_cells.name, geom, crs, replace)
$$;
COMMENT ON FUNCTION dbanon.import_cells(regclass, text, text, text, text, boolean) IS
'Imports coverage polygons from a table or view into a dataset that exists; adds to those that are there. Takes: source;
dataset, its name; geom, the column of polygons (or several in one), valid and of some area; name, the column that names the
station; crs, their reference system, where they do not name it; replace, whether to delete those that are there first.
Returns: a row: load_id; rows_read; rows_kept; quarantined, the rows left out by reason. Raises: DA001, DA011, DA012, DA014.
Example: SELECT * FROM dbanon.import_cells(''public.coverage'', dataset => ''taxi'', name => ''station'').';

-- ---- who and when

CREATE OR REPLACE FUNCTION dbanon_internal.stage_events(
    source regclass, subject text, "time" text, tz text, columns text[], OUT qualified text, OUT counted bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    named CONSTANT text[] := ARRAY[subject, "time"] || columns;
    cells text;
    told text;
    types jsonb;
BEGIN
    SELECT d.qualified, d.types INTO stage_events.qualified, types FROM dbanon_internal.describe_source(source, named, subject) d;
    SELECT string_agg(format('raw.c%s', n.ord), ', ' ORDER BY n.ord),
        string_agg(dbanon_internal.text_expression(format('c%s', n.ord)), ', ' ORDER BY n.ord) FILTER (WHERE n.ord > 2)
    INTO told, cells FROM unnest(named) WITH ORDINALITY n (name, ord);
    PERFORM dbanon_internal.make_staging('subject text COLLATE "C", at timestamptz, pairs jsonb, reason text, content jsonb');
    counted := dbanon_internal.stage_source(format(
        'INSERT INTO pg_temp.dbanon_staged SELECT 0, line, subject, CASE WHEN t >= -62135596800 AND t < 1e11 THEN to_timestamp(t) END, '
        'pairs, CASE %s WHEN pairs = ''{}'' THEN ''empty-request'' END, content '
        'FROM (SELECT line, content, %s AS subject, %s AS t, %s AS pairs '
        'FROM (SELECT row_number() OVER () AS line, raw.*, jsonb_object(%L::text[], ARRAY[%s]) AS content '
        'FROM (SELECT %I AS raw_time, %s FROM %s) raw) numbered OFFSET 0) meant',
        dbanon_internal.event_reasons(), dbanon_internal.text_expression('c1'),
        dbanon_internal.time_expression('raw_time', qualified, types, "time", tz),
        CASE WHEN cells IS NULL THEN 'NULL::jsonb'
             ELSE format('jsonb_strip_nulls(jsonb_object(%L::text[], ARRAY[%s]))', columns, cells) END,
        named, told, "time",
        (SELECT string_agg(format('%I::text AS c%s', n.name, n.ord), ', ' ORDER BY n.ord)
         FROM unnest(named) WITH ORDINALITY n (name, ord)), qualified), qualified);
    PERFORM dbanon_internal.leave_out('reason IS NOT NULL', 'reason', 'content');
END
$$;
COMMENT ON FUNCTION dbanon_internal.stage_events(regclass, text, text, text, text[]) IS
'Reads who did something when into the staging tables, and leaves out rows that cannot be used by themselves.';

CREATE OR REPLACE FUNCTION dbanon.import_requests(
    source regclass, dataset text, columns text[], subject text DEFAULT 'subject', "time" text DEFAULT 'time', tz text DEFAULT NULL)
RETURNS TABLE (load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    named text[] := ARRAY(SELECT n.name FROM unnest(columns) WITH ORDINALITY n (name, ord) ORDER BY n.ord);
    known dbanon.dataset;
    staged record;
BEGIN
    IF cardinality(named) = 0 THEN
        RAISE EXCEPTION 'A request must have at least one column. Got none.'
            USING ERRCODE = 'DA011', DETAIL = 'The named columns become its name-value pairs.',
                  HINT = 'Name them, for example columns => ARRAY[''poi'', ''radius''].';
    END IF;
    PERFORM dbanon_internal.check_differ(ARRAY[subject, "time"], 'subject and time');
    IF named && ARRAY[subject, "time"] THEN
        RAISE EXCEPTION 'The content of a request must not name who sent it or when. Got column ''%''.',
                CASE WHEN subject = ANY (named) THEN subject ELSE "time" END
            USING ERRCODE = 'DA011', DETAIL = 'Requests are published as they are.', HINT = 'Leave it out of columns.';
    END IF;
    PERFORM dbanon_internal.check_differ(named, 'the content');
    PERFORM dbanon_internal.check_zone(tz);
    PERFORM dbanon_internal.lock_dataset(dataset);
    known := dbanon_internal.known_dataset(dataset);
    SELECT s.* INTO staged FROM dbanon_internal.stage_events(source, subject, "time", tz, named) s;
    PERFORM dbanon_internal.demand_some(staged.counted, 'Check which columns are named, and the times.');
    PERFORM dbanon_internal.leave_out(format(
        'EXISTS (SELECT FROM dbanon.request q WHERE q.dataset_id = %s AND q.subject = dbanon_staged.subject '
        'AND q.sent_at = dbanon_staged.at AND q.content = dbanon_staged.pairs)', known.dataset_id),
        '''duplicate-request''', 'content');
    PERFORM dbanon_internal.demand_some(staged.counted, 'Check which columns are named, and the times.');
    INSERT INTO dbanon.request (dataset_id, subject, sent_at, content)
    SELECT known.dataset_id, s.subject, s.at, s.pairs FROM pg_temp.dbanon_staged s ORDER BY s.line;
    RETURN QUERY SELECT w.load_id, w.file_rows, w.rows_kept, w.quarantined
        FROM dbanon_internal.write_load(known.dataset_id, 'requests', ARRAY['table ' || staged.qualified], ARRAY[staged.counted]) w;
END
$$;
COMMENT ON FUNCTION dbanon.import_requests(regclass, text, text[], text, text, text) IS
'Imports requests to location based services from a table or view into a dataset that exists; adds to those that are there.
They are kept whenever they were sent and whoever sent them: a run counts those it cannot use. Takes: source; dataset, its
name; columns, those that become name-value pairs, empty ones left out; subject and time, the columns that say who sent it
and when; tz, the zone of times that name none. Returns: a row: load_id; rows_read; rows_kept; quarantined, the rows left out
by reason. Raises: DA001, DA011, DA012, DA014. Example: SELECT * FROM dbanon.import_requests(''public.calls'', dataset =>
''taxi'', columns => ARRAY[''poi'']).';

CREATE OR REPLACE FUNCTION dbanon.import_quasi_identifiers(
    source regclass, dataset text, subject text DEFAULT 'subject', "time" text DEFAULT 'time', tz text DEFAULT NULL,
    replace boolean DEFAULT false)
RETURNS TABLE (load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    known dbanon.dataset;
    staged record;
BEGIN
    PERFORM dbanon_internal.check_differ(ARRAY[subject, "time"], 'subject and time');
    PERFORM dbanon_internal.check_zone(tz);
    PERFORM dbanon_internal.lock_dataset(dataset);
    known := dbanon_internal.known_dataset(dataset);
    SELECT s.* INTO staged FROM dbanon_internal.stage_events(source, subject, "time", tz, '{}') s;
    PERFORM dbanon_internal.demand_some(staged.counted, 'Check which columns are named, and the times.');
    IF replace THEN
        DELETE FROM dbanon.quasi_identifier q WHERE q.dataset_id = known.dataset_id;
    END IF;
    PERFORM dbanon_internal.leave_out(format(
        'line IN (SELECT line FROM (SELECT line, row_number() OVER (PARTITION BY subject, at ORDER BY line NULLS FIRST) AS nth '
        'FROM (SELECT NULL::bigint AS line, subject COLLATE "C" AS subject, at FROM dbanon.quasi_identifier WHERE dataset_id = %s '
        'UNION ALL SELECT line, subject, at FROM pg_temp.dbanon_staged) every_one) numbered WHERE nth > 1)', known.dataset_id),
        '''duplicate-quasi-identifier''', 'content');
    PERFORM dbanon_internal.demand_some(staged.counted, 'Check which columns are named, and the times.');
    INSERT INTO dbanon.quasi_identifier (dataset_id, subject, at)
    SELECT known.dataset_id, s.subject, s.at FROM pg_temp.dbanon_staged s ORDER BY s.line;
    RETURN QUERY SELECT w.load_id, w.file_rows, w.rows_kept, w.quarantined
        FROM dbanon_internal.write_load(known.dataset_id, 'quasi-identifiers', ARRAY['table ' || staged.qualified], ARRAY[staged.counted]) w;
END
$$;
COMMENT ON FUNCTION dbanon.import_quasi_identifiers(regclass, text, text, text, text, boolean) IS
'Imports the times at which an adversary may know where a subject was, from a table or view into a dataset that exists; adds
to those that are there. Takes: source; dataset, its name; subject and time, the columns; tz, the zone of times that name
none; replace, whether to delete those that are there first. Returns: a row: load_id; rows_read; rows_kept; quarantined, the
rows left out by reason. Raises: DA001, DA011, DA012, DA014. Example: SELECT * FROM
dbanon.import_quasi_identifiers(''public.sightings'', dataset => ''taxi'').';
