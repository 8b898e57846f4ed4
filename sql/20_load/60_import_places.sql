-- Imports of what methods read beside trajectories: points of interest, sites, cells, base stations, requests, quasi-identifiers.
--
-- Each goes into a dataset that exists, in the session and with the rights of the caller. A row of the source is either stored
-- or in dbanon.quarantine with a reason, and one that is there already adds nothing. A file comes the same way: the command line copies
-- it into pg_temp.dbanon_file, whose columns line and content (the row as it was read) then number the rows (dbanon_internal.describe_rows).

-- ---- places

CREATE OR REPLACE FUNCTION dbanon_internal.find_place_kind(
    kind text, OUT relation text, OUT needs_label boolean, OUT named text, OUT one text, OUT many text, OUT twin text, OUT curves text, OUT shapes text,
    OUT other_shape text, OUT remedy text, OUT far text, OUT far_remedy text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT kin.relation, kin.needs_label, kin.named, kin.one, kin.many, kin.twin, kin.curves, kin.shapes, kin.other_shape, kin.remedy, kin.far, kin.far_remedy
    FROM (VALUES
        ('pois', 'poi', true, 'category and geometry', 'point of interest', 'points of interest', 'duplicate-poi', NULL,
            '^(MULTI)?(POINT|LINESTRING|POLYGON)$', 'unparsable-position', 'Check which columns are named, and crs.', '', ''),
        ('sites', 'site', false, 'geometry and name', 'site', 'sites', 'duplicate-site',
            'CURVE|CIRCULARSTRING|SURFACE|TIN', NULL, NULL, 'Check which column holds the geometries, crs and bbox.',
            ', though a rectangle would reach from there to the people', ', or keep to an area (bbox => ...)'),
        ('cells', 'cell', false, 'name and geometry', 'cell', 'cells', 'duplicate-cell', NULL, '^(MULTI)?POLYGON$', 'not-a-polygon',
            'Check which columns are named, and crs.', '', ''),
        ('stations', 'cell', false, 'name and geometry', 'station', 'stations', 'duplicate-cell', NULL, '^POINT$', 'unparsable-position',
            'Check which columns are named, and crs.', ', though cells reach from one station to the next', '')
    ) kin (kind, relation, needs_label, named, one, many, twin, curves, shapes, other_shape, remedy, far, far_remedy)
    WHERE kin.kind = find_place_kind.kind
$$;
COMMENT ON FUNCTION dbanon_internal.find_place_kind IS
'What is special about a kind of places: the table they are stored in, whether each needs a label, how its columns and it are called, the reason against a
second one, shapes that cannot be read, the shapes it may have and the reason against others, what to do if no row can be used or some lie far outside.';

CREATE OR REPLACE FUNCTION dbanon_internal.name_shape(shape @postgis@.geometry) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
-- Z is no part of the name of a type, and M would be; a collection names its parts.
RETURN CASE @postgis@.GeometryType(@postgis@.ST_Force2D(shape)) WHEN 'GEOMETRYCOLLECTION'
    THEN regexp_replace(@postgis@.ST_AsText(@postgis@.ST_Force2D(shape)), '[^A-Z]+', ' ', 'g') ELSE @postgis@.GeometryType(@postgis@.ST_Force2D(shape)) END;
COMMENT ON FUNCTION dbanon_internal.name_shape IS 'The type of a shape in two dimensions; of a collection, the types of its parts.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_place_fault(
    label text, needs_label boolean, shape @postgis@.geometry, curves text, shapes text, other_shape text, x double precision, y double precision,
    expected_srid integer, geographic boolean, missing boolean, bbox double precision[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN coalesce(CASE WHEN needs_label AND label IS NULL THEN 'missing-category' END, dbanon_internal.find_name_fault(label),
    CASE WHEN dbanon_internal.name_shape(shape) ~ curves THEN 'unparsable-position' END,
    dbanon_internal.find_position_fault(@postgis@.ST_SRID(shape), x, y, expected_srid, geographic, missing),
    CASE WHEN dbanon_internal.name_shape(shape) !~ shapes THEN other_shape END, dbanon_internal.find_box_fault(x, y, bbox));
COMMENT ON FUNCTION dbanon_internal.find_place_fault IS 'What is wrong with a place by itself, of which x and y are the middle.';

CREATE OR REPLACE FUNCTION dbanon_internal.stage_places(
    kind text, source regclass, qualified text, label text, geom text, source_srid integer, geographic boolean, bbox double precision[])
RETURNS bigint LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET synchronize_seqscans = off SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    place CONSTANT record := dbanon_internal.find_place_kind(kind);
    rows CONSTANT record := dbanon_internal.describe_rows(source, qualified);
    names CONSTANT text[] := ARRAY[coalesce(label, ''), geom];
    context text;
    rows_read bigint;
BEGIN
    PERFORM dbanon_internal.make_staging('label text, shape @postgis@.geometry, geom @postgis@.geometry, reason text, content jsonb');
    PERFORM dbanon_internal.show_source(format('SELECT %s AS line, %s AS given, %s::text AS raw_label, %I::@postgis@.geometry AS raw_geom FROM %s',
        rows.line, rows.content, coalesce(quote_ident(label), 'NULL'), geom, qualified));
    BEGIN
        SET LOCAL search_path = pg_catalog, @postgis@, pg_temp;
        INSERT INTO pg_temp.dbanon_staged (file, line, label, shape, reason, content)
        SELECT 0, rea.line, rea.label, @postgis@.ST_SetSRID(@postgis@.ST_Force2D(rea.raw_geom), source_srid),
            -- What of a file could not be read is NULL, and what is not there is empty.
            dbanon_internal.find_place_fault(rea.label, place.needs_label, rea.raw_geom, place.curves, place.shapes, place.other_shape, rea.x, rea.y,
                source_srid, geographic, CASE WHEN rows.is_file THEN rea.raw_geom IS NOT NULL ELSE true END, bbox),
            coalesce(rea.given, dbanon_internal.copy_place(names, rea.raw_label, rea.raw_geom))
        FROM (SELECT src.line, src.given, src.raw_label, src.raw_geom, dbanon_internal.read_text(src.raw_label) AS label,
                  CASE WHEN dbanon_internal.is_endless(src.raw_geom) THEN 'NaN' ELSE dbanon_internal.find_middle_x(src.raw_geom, geographic) END AS x,
                  CASE WHEN dbanon_internal.is_endless(src.raw_geom) THEN 'NaN' ELSE dbanon_internal.find_middle_y(src.raw_geom) END AS y
              FROM (SELECT vie.* FROM pg_temp.dbanon_source vie OFFSET 0) src OFFSET 0) rea;
        GET DIAGNOSTICS rows_read = ROW_COUNT;
        SET LOCAL search_path = pg_catalog, pg_temp;
        DROP VIEW pg_temp.dbanon_source;
    EXCEPTION WHEN others THEN
        GET STACKED DIAGNOSTICS context = PG_EXCEPTION_CONTEXT;
        PERFORM dbanon_internal.raise_reading_error(qualified, SQLSTATE, context);
        RAISE;
    END;
    PERFORM dbanon_internal.leave_out_marked();
    RETURN rows_read;
END
$$;
COMMENT ON FUNCTION dbanon_internal.stage_places IS
'Reads places into the staging tables, and leaves out those that cannot be used by themselves. Raises an error if the source cannot be read.';

CREATE OR REPLACE FUNCTION dbanon_internal.lies_within(
    place @postgis@.geometry, west double precision, east double precision, south double precision, north double precision) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT @postgis@.ST_XMin(b) >= west AND @postgis@.ST_XMax(b) <= east AND @postgis@.ST_YMin(b) >= south AND @postgis@.ST_YMax(b) <= north
    FROM (SELECT @postgis@.Box3D(place) AS b) box
$$;
COMMENT ON FUNCTION dbanon_internal.lies_within IS 'Says whether the bounds of a geometry lie within others.';

CREATE OR REPLACE FUNCTION dbanon_internal.reproject_places(kind text, dataset_id bigint, target integer, drop_outliers boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    box CONSTANT record := dbanon_internal.find_trajectory_bounds(dataset_id);
BEGIN
    UPDATE pg_temp.dbanon_staged sta SET geom = dbanon_internal.reproject(sta.shape, target);
    UPDATE pg_temp.dbanon_staged sta SET reason = CASE
        WHEN dbanon_internal.lies_within(
                dbanon_internal.reproject(@postgis@.ST_FlipCoordinates(sta.shape), target), box.west, box.east, box.south, box.north)
            THEN 'swapped-axes'
        WHEN sta.geom IS NULL THEN 'position-out-of-range' ELSE 'far-position' END
    WHERE dbanon_internal.lies_within(sta.geom, box.west, box.east, box.south, box.north) IS NOT TRUE;
    IF kind = 'cells' THEN
        UPDATE pg_temp.dbanon_staged SET reason = 'invalid-polygon'
        WHERE coalesce(reason, 'far-position') = 'far-position'
            AND NOT ((@postgis@.ST_IsValidDetail(geom, 0)).valid AND @postgis@.ST_Area(geom) > 0);
    END IF;
    PERFORM dbanon_internal.leave_out_marked(CASE WHEN drop_outliers THEN '' ELSE 'far-position' END);
END
$$;
COMMENT ON FUNCTION dbanon_internal.reproject_places IS
'Reprojects the staged places, and leaves out those that cannot be, that would be where the trajectories are only with x and y
exchanged, and cells that cover nothing or cross themselves; marks those far outside.';

CREATE OR REPLACE FUNCTION dbanon_internal.store_places(kind text, dataset_id bigint, replace boolean, load_id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    place CONSTANT record := dbanon_internal.find_place_kind(kind);
BEGIN
    IF replace THEN
        DELETE FROM dbanon.poi poi WHERE place.relation = 'poi' AND poi.dataset_id = dataset_id;
        DELETE FROM dbanon.site sit WHERE place.relation = 'site' AND sit.dataset_id = dataset_id;
        DELETE FROM dbanon.cell cel WHERE place.relation = 'cell' AND cel.dataset_id = dataset_id;
    END IF;
    -- To the millimetre. What is smaller than that has nothing left on the grid, but bounds; of sites, these are all that methods read.
    WITH placed AS (
        SELECT NULL::bigint AS line, poi.category AS label, poi.geom FROM dbanon.poi poi WHERE place.relation = 'poi' AND poi.dataset_id = dataset_id
        UNION ALL SELECT NULL, sit.name, sit.geom FROM dbanon.site sit WHERE place.relation = 'site' AND sit.dataset_id = dataset_id
        UNION ALL SELECT NULL, cel.name, cel.geom FROM dbanon.cell cel WHERE place.relation = 'cell' AND cel.dataset_id = dataset_id
        UNION ALL SELECT sta.line, sta.label, sta.geom FROM pg_temp.dbanon_staged sta
    ), numbered AS (
        SELECT box.line, row_number() OVER (
            PARTITION BY box.label, round(@postgis@.ST_XMin(box.b) * 1000), round(@postgis@.ST_YMin(box.b) * 1000), round(@postgis@.ST_XMax(box.b) * 1000),
                round(@postgis@.ST_YMax(box.b) * 1000), CASE WHEN place.relation <> 'site' THEN @postgis@.ST_AsBinary(@postgis@.ST_Normalize(
                    @postgis@.ST_SnapToGrid(box.geom, 0::double precision, 0::double precision, 0.001::double precision, 0.001::double precision))) END
            ORDER BY box.line NULLS FIRST) AS nth
        FROM (SELECT pla.*, @postgis@.Box3D(pla.geom) AS b FROM placed pla) box
    ), gone AS (
        DELETE FROM pg_temp.dbanon_staged sta WHERE sta.line IN (SELECT num.line FROM numbered num WHERE num.nth > 1) RETURNING sta.*
    )
    INSERT INTO pg_temp.dbanon_rejected SELECT gone.file, gone.line, place.twin, gone.content, gone.t FROM gone;
    IF place.relation = 'poi' THEN
        INSERT INTO dbanon.poi (dataset_id, load_id, category, geom)
        SELECT dataset_id, load_id, sta.label, sta.geom FROM pg_temp.dbanon_staged sta ORDER BY sta.line;
    ELSIF place.relation = 'site' THEN
        INSERT INTO dbanon.site (dataset_id, load_id, name, geom)
        SELECT dataset_id, load_id, sta.label, sta.geom FROM pg_temp.dbanon_staged sta ORDER BY sta.line;
    ELSE
        INSERT INTO dbanon.cell (dataset_id, load_id, name, geom)
        SELECT dataset_id, load_id, sta.label, sta.geom FROM pg_temp.dbanon_staged sta ORDER BY sta.line;
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.store_places IS 'Stores the staged places that the dataset has not got.';

CREATE OR REPLACE FUNCTION dbanon_internal.import_places(
    kind text, source regclass, dataset_name text, label text, geom text, crs text, replace boolean,
    bbox double precision[] DEFAULT NULL, drop_outliers boolean DEFAULT false, area @postgis@.geometry DEFAULT NULL)
RETURNS TABLE (load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb, far bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET application_name = 'dbanon: loading'
AS $$
DECLARE
    place CONSTANT record := dbanon_internal.find_place_kind(kind);
    named CONSTANT text[] := CASE WHEN NOT place.needs_label AND label IS NULL THEN ARRAY[geom] ELSE ARRAY[label, geom] END;
    usable text;
    dataset dbanon.dataset;
    described record;
    rows record;
    reference_system record;
    remedy text;
BEGIN
    PERFORM dbanon_internal.demand_different(named, place.named);
    -- One load at a time; then the source is described, and what was asked for is checked against it.
    PERFORM dbanon_internal.lock_dataset(dataset_name);
    dataset := dbanon_internal.demand_dataset(dataset_name);
    described := dbanon_internal.describe_source(source, named, geom => geom);
    rows := dbanon_internal.describe_rows(source, described.qualified);
    PERFORM dbanon_internal.demand_geometry(described.types, geom, source);
    reference_system := dbanon_internal.demand_reference_system(coalesce(crs, dbanon_internal.find_source_crs(described.qualified, geom, described.qualified)));
    PERFORM dbanon_internal.demand_box(bbox, reference_system.geographic);
    PERFORM dbanon_internal.demand_no_cells(kind, dataset, replace);
    -- Files and tables differ in what the caller can correct, so each brings its own remedies.
    usable := coalesce(rows.check_remedy, place.remedy);
    remedy := coalesce(rows.swap_remedy, format('The geometries of column ''%s'' have y first. Swap them in a view, with '
        'ST_FlipCoordinates, and import that.', geom));
    PERFORM dbanon_internal.report_stage('reading ' || rows.source_label);
    rows_read := dbanon_internal.stage_places(kind, source, described.qualified, label, geom, reference_system.srid, reference_system.geographic, bbox);
    PERFORM dbanon_internal.demand_unswapped(ARRAY[rows_read], remedy);
    PERFORM dbanon_internal.demand_usable_rows(rows_read, usable);
    -- Reprojection may leave more rows out, and show that most of a file has its axes swapped.
    PERFORM dbanon_internal.report_stage('placing ' || kind);
    PERFORM dbanon_internal.reproject_places(kind, dataset.dataset_id, dataset.srid, coalesce(drop_outliers, false));
    PERFORM dbanon_internal.demand_unswapped(ARRAY[rows_read], remedy);
    PERFORM dbanon_internal.demand_usable_rows(rows_read, usable);
    IF kind = 'stations' THEN
        PERFORM dbanon_internal.report_stage('making cells');
        PERFORM dbanon_internal.make_cells(dataset, area, reference_system.srid);
    END IF;
    -- What the dataset has already is left out here, last, since it is compared as it is stored.
    PERFORM dbanon_internal.report_stage('storing ' || kind);
    load_id := dbanon_internal.begin_record(dataset.dataset_id, kind, ARRAY[rows.source_label]);
    PERFORM dbanon_internal.store_places(kind, dataset.dataset_id, coalesce(replace, false), load_id);
    PERFORM dbanon_internal.demand_usable_rows(rows_read, usable);
    SELECT done.rows_kept, done.quarantined INTO rows_kept, quarantined
    FROM dbanon_internal.write_load(load_id, ARRAY[rows_read]) done;
    SELECT count(sta.reason) INTO far FROM pg_temp.dbanon_staged sta;
    PERFORM dbanon_internal.raise_notice(format('%s kept%s: load with drop_outliers => true to leave %s out%s.',
        dbanon_internal.format_quantity(far, place.one || ' lies far outside where the trajectories are and was',
                                        place.many || ' lie far outside where the trajectories are and were'),
        place.far, CASE far WHEN 1 THEN 'it' ELSE 'them' END, place.far_remedy)) WHERE far > 0;
    IF kind IN ('cells', 'stations') THEN
        PERFORM dbanon_internal.report_cells(kind, dataset.dataset_id, quarantined);
    END IF;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION dbanon_internal.import_places IS 'Does the work of the imports of places, and raises their errors.';

CREATE OR REPLACE FUNCTION dbanon.import_pois(
    source regclass, dataset text, category text, geom text DEFAULT 'geom', crs text DEFAULT NULL,
    drop_outliers boolean DEFAULT false, replace boolean DEFAULT false)
RETURNS TABLE (load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb)
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.load_id, p.rows_read, p.rows_kept, p.quarantined
    FROM dbanon_internal.import_places('pois', source, dataset, category, geom, crs, replace, drop_outliers => import_pois.drop_outliers) p
$$;
COMMENT ON FUNCTION dbanon.import_pois IS
'Adds points of interest from a table or view to a dataset that exists.
Arguments:
- source: table or view of the same database.
- dataset: @LoadingPois.dataset@
- category: @LoadingPois.category@
- geom: column of the geometries: points, lines or polygons.
- crs: coordinate system of the geometries. Default: their own.
- drop_outliers: @LoadingPois.drop_outliers@
- replace: @LoadingPois.replace@
Returns: one row.
- load_id: the key of its row in dbanon.load.
- rows_read: how many rows the source had.
- rows_kept: how many of them were stored.
- quarantined: how many were left out, by reason.
Raises: DA001, DA011, DA012, DA014.
Example: SELECT * FROM dbanon.import_pois(''public.shops'', dataset => ''taxi'', category => ''kind'').';

CREATE OR REPLACE FUNCTION dbanon.import_sites(
    source regclass, dataset text, geom text DEFAULT 'geom', name text DEFAULT NULL, crs text DEFAULT NULL,
    bbox double precision[] DEFAULT NULL, drop_outliers boolean DEFAULT false, replace boolean DEFAULT false)
RETURNS TABLE (load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb)
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.load_id, p.rows_read, p.rows_kept, p.quarantined
    FROM dbanon_internal.import_places('sites', source, dataset, import_sites.name, geom, crs, replace, bbox, drop_outliers) p
$$;
COMMENT ON FUNCTION dbanon.import_sites IS
'Adds sensitive sites from a table or view, one a row, to a dataset that exists. It reads the source with the rights of the caller.
Arguments:
- source: table or view of the same database.
- dataset: @LoadingSites.dataset@
- geom: column of the site: a point, or a shape without curves. Only the bounding rectangle of a shape counts.
- name: @LoadingSites.name@
- crs: coordinate system of the geometries. Default: their own.
- bbox: {xmin,ymin,xmax,ymax} in units of the source. Sites with their middle outside are left out.
- drop_outliers: @LoadingSites.drop_outliers@
- replace: @LoadingSites.replace@
Returns: one row.
- load_id: the key of its row in dbanon.load.
- rows_read: how many rows the source had.
- rows_kept: how many of them were stored.
- quarantined: how many were left out, by reason.
Raises: DA001, DA011, DA012, DA014. Then nothing is stored. A notice counts sites that were kept although they lie far outside.
Example: SELECT * FROM dbanon.import_sites(''public.clinics'', dataset => ''taxi'', geom => ''place'').';

CREATE OR REPLACE FUNCTION dbanon.import_cells(
    source regclass, dataset text, geom text DEFAULT 'geom', name text DEFAULT NULL, crs text DEFAULT NULL,
    drop_outliers boolean DEFAULT false, replace boolean DEFAULT false)
RETURNS TABLE (load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb)
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.load_id, p.rows_read, p.rows_kept, p.quarantined
    FROM dbanon_internal.import_places('cells', source, dataset, import_cells.name, geom, crs, replace, drop_outliers => import_cells.drop_outliers) p
$$;
COMMENT ON FUNCTION dbanon.import_cells IS
'Adds coverage polygons of base stations from a table or view to a dataset that exists.
Arguments:
- source: table or view of the same database.
- dataset: @LoadingCells.dataset@
- geom: column of the polygons, valid and of some area. A row may have several in one multipolygon.
- name: @LoadingCells.name@
- crs: coordinate system of the polygons. Default: their own.
- drop_outliers: @LoadingCells.drop_outliers@
- replace: @LoadingCells.replace@
Returns: one row.
- load_id: the key of its row in dbanon.load.
- rows_read: how many rows the source had.
- rows_kept: how many of them were stored.
- quarantined: how many were left out, by reason.
Raises: DA001, DA011, DA012, DA014. Notices name cells that overlap or leave gaps, and count fixes outside all cells.
Example: SELECT * FROM dbanon.import_cells(''public.coverage'', dataset => ''taxi'', name => ''station'').';

CREATE OR REPLACE FUNCTION dbanon.import_stations(
    source regclass, dataset text, geom text DEFAULT 'geom', name text DEFAULT NULL, crs text DEFAULT NULL,
    area @postgis@.geometry DEFAULT NULL, drop_outliers boolean DEFAULT false, replace boolean DEFAULT false)
RETURNS TABLE (load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb)
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.load_id, p.rows_read, p.rows_kept, p.quarantined
    FROM dbanon_internal.import_places('stations', source, dataset, import_stations.name, geom, crs, replace,
        drop_outliers => import_stations.drop_outliers, area => import_stations.area) p
$$;
COMMENT ON FUNCTION dbanon.import_stations IS
'Adds base stations from a table or view, one a row, to a dataset that exists and has no cells. Each station gets a cell in dbanon.cell: all places
that are nearer to it than to any other station (a Voronoi cell).
Arguments:
- source: table or view of the same database.
- dataset: @LoadingStations.dataset@
- geom: column of the points.
- name: @LoadingStations.name@
- crs: coordinate system of the geometries. Default: their own.
- area: the polygon that the cells divide among themselves, in its own SRID or, where that is 0, in crs. Default: the hull of the stations with a
  margin
  as wide as the distance between cells.
- drop_outliers: @LoadingStations.drop_outliers@
- replace: @LoadingStations.replace@
Returns: one row.
- load_id: the key of its row in dbanon.load.
- rows_read: how many rows the source had.
- rows_kept: how many cells were made.
- quarantined: how many stations were left out, by reason.
Raises: DA001, DA011, DA012, DA014. Notices name stations that share a cell or lie far outside where the trajectories are, and count fixes outside all
cells.
Example: SELECT * FROM dbanon.import_stations(''public.towers'', dataset => ''taxi'', name => ''mast'').';

-- ---- who and when

CREATE OR REPLACE FUNCTION dbanon_internal.stage_events(
    source regclass, asked dbanon_internal.loading, kind text, set_name text, columns text[], keys text[],
    OUT dataset dbanon.dataset, OUT source_label text, OUT counted bigint, OUT units_per_s double precision)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET application_name = 'dbanon: loading'
SET synchronize_seqscans = off SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    named CONSTANT text[] := ARRAY[asked.subject, asked.time_column] || columns;
    nobody CONSTANT text[] := dbanon_internal.list_null_names(asked);
    last_s CONSTANT double precision := dbanon_internal.find_last_time(asked);
    names_time CONSTANT boolean := num_nonnulls(asked.since, asked.until) > 0;
    described record;
    rows record;
    query text;
    context text;
BEGIN
    PERFORM dbanon_internal.demand_zone(asked.tz);
    PERFORM dbanon_internal.demand_window(asked);
    IF asked.mode IS NULL OR asked.mode NOT IN ('append', 'new') THEN
        RAISE EXCEPTION 'The mode of this load must be append or new. Got %.', coalesce(dbanon_internal.quote_text(asked.mode), 'NULL')
            USING ERRCODE = 'DA011', DETAIL = 'Both add to the stored rows. With new, known rows are counted, and no copy of them goes into quarantine.',
                  HINT = 'Choose one of the two.';
    END IF;
    PERFORM dbanon_internal.lock_dataset(asked.dataset);
    dataset := dbanon_internal.demand_dataset(asked.dataset);
    described := dbanon_internal.describe_source(source, named, asked.subject);
    rows := dbanon_internal.describe_rows(source, described.qualified);
    source_label := rows.source_label;
    PERFORM dbanon_internal.demand_filter(described.qualified, asked.filter);
    units_per_s := dbanon_internal.find_units(
        dbanon_internal.build_chosen_rows(described.qualified, '{}', NULL, jsonb_populate_record(asked, '{"since": null, "until": null}')),
        described.qualified, described.types ->> asked.time_column, asked, kind, source_label);
    IF asked.mode = 'new' THEN
        asked.since := coalesce(asked.since, CASE WHEN NOT rows.is_file THEN
            dbanon_internal.find_newest_time(kind, dataset.dataset_id, set_name) - interval '1 day' END);
    END IF;
    PERFORM dbanon_internal.report_stage('reading ' || source_label);
    PERFORM dbanon_internal.make_staging('subject text COLLATE "C", at timestamptz, pairs jsonb, reason text, content jsonb');
    -- The subject, the time, then the values; their names are data, and may repeat ours.
    query := format(
        'SELECT raw.line, raw.given, raw.cells, tim.t, tim.repeated, %s AS pairs '
        'FROM (SELECT %s AS line, %s AS given, ARRAY[%s] AS cells, %I AS raw_time, %s FROM %s) raw CROSS JOIN LATERAL %s',
        coalesce((SELECT format('jsonb_strip_nulls(jsonb_object(%L::text[], ARRAY[%s]))', keys,
                                string_agg(format('dbanon_internal.read_text(raw.cells[%s])', ele.ord + 2), ', ' ORDER BY ele.ord))
                  FROM unnest(columns) WITH ORDINALITY ele (name, ord) HAVING count(*) > 0), 'NULL::jsonb'),
        rows.line, rows.content, (SELECT string_agg(format('%I::text', ele.name), ', ' ORDER BY ele.ord) FROM unnest(named) WITH ORDINALITY ele (name, ord)),
        asked.time_column, CASE WHEN rows.is_file THEN 'repeated' ELSE 'NULL::boolean' END || ' AS repeated',
        dbanon_internal.build_chosen_rows(described.qualified, described.types, units_per_s, asked),
        CASE WHEN rows.is_file THEN
                '(SELECT CASE WHEN raw.repeated AND raw.raw_time IS NULL THEN @skipped_s@ ELSE extract(epoch FROM raw.raw_time)::float8 END AS t, '
                'raw.repeated) tim'
            ELSE dbanon_internal.build_reading('raw.raw_time', described.types, asked, units_per_s) END);
    PERFORM dbanon_internal.show_source(query);
    BEGIN
        SET LOCAL search_path = pg_catalog, @postgis@, pg_temp;
        INSERT INTO pg_temp.dbanon_staged (file, line, t, subject, at, pairs, reason, content, repeated)
        SELECT 0, rea.line, rea.t, rea.subject, CASE WHEN dbanon_internal.is_time(rea.t) THEN pg_catalog.to_timestamp(rea.t) END, rea.pairs,
            coalesce(dbanon_internal.find_event_fault(rea.subject, rea.t, nobody, last_s),
                     CASE WHEN dbanon_internal.is_empty(rea.pairs) THEN 'empty-request' END),
            coalesce(rea.given, dbanon_internal.copy_cells(named, rea.cells)), rea.repeated
        FROM (SELECT src.*, dbanon_internal.read_text(src.cells[1]) AS subject
              FROM (SELECT vie.* FROM pg_temp.dbanon_source vie OFFSET 0) src OFFSET 0) rea;
        GET DIAGNOSTICS counted = ROW_COUNT;
        SET LOCAL search_path = pg_catalog, pg_temp;
        DROP VIEW pg_temp.dbanon_source;
    EXCEPTION WHEN others THEN
        GET STACKED DIAGNOSTICS context = PG_EXCEPTION_CONTEXT;
        PERFORM dbanon_internal.raise_reading_error(described.qualified, SQLSTATE, context);
        RAISE;
    END;
    PERFORM dbanon_internal.settle_staged(asked, kind, ARRAY[source_label], names_time);
    UPDATE pg_temp.dbanon_staged SET at = to_timestamp(t) WHERE repeated AND CASE WHEN at IS NOT NULL THEN at <> to_timestamp(t) END;
    PERFORM dbanon_internal.leave_out_marked();
    PERFORM dbanon_internal.note_nobody(asked);
    PERFORM dbanon_internal.demand_usable_rows(counted, 'Check which columns are named, and the times.', asked.mode = 'new',
                                               jsonb_build_object(coalesce(rows.swap_remedy, asked.time_column), 't'));
    PERFORM dbanon_internal.raise_notice(dbanon_internal.describe_missing_index(source, asked));
    PERFORM dbanon_internal.report_stage('storing ' || kind);
END
$$;
COMMENT ON FUNCTION dbanon_internal.stage_events IS
'Locks the dataset, reads who did something when into the staging tables, and leaves out rows that cannot be used by themselves. Raises an error if
what was asked for cannot be read so, or if no row can be used.';

CREATE OR REPLACE FUNCTION dbanon_internal.leave_out_events(asked dbanon_internal.loading, dataset dbanon.dataset, counted bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    looked_for_new CONSTANT boolean := asked.mode = 'new';
BEGIN
    IF looked_for_new THEN PERFORM dbanon_internal.leave_out_late(dataset.dataset_id); END IF;
    PERFORM dbanon_internal.demand_usable_rows(counted, 'Check which columns are named, and the times.', looked_for_new);
    PERFORM dbanon_internal.raise_notice(note.notice) FROM dbanon_internal.describe_left_out(
        counted, (SELECT count(*) FROM pg_temp.dbanon_staged), looked_for_new, dataset.kept_since) note (notice);
    PERFORM dbanon_internal.note_rounding(coalesce(bool_or(dbanon_internal.is_rounded(sta.subject)), false), count(*), min(sta.at), max(sta.at))
        FROM pg_temp.dbanon_staged sta;
END
$$;
COMMENT ON FUNCTION dbanon_internal.leave_out_events IS
'Leaves out staged rows of times that were published, where what is new is looked for. Raises an error if no row can be used.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_request_columns(subject text, time_column text, columns text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF cardinality(columns) = 0 THEN
        RAISE EXCEPTION 'A request must have at least one column. Got none.'
            USING ERRCODE = 'DA011', DETAIL = 'The named columns become its name-value pairs.',
                  HINT = 'Name them, for example columns => ARRAY[''poi'', ''radius''].';
    END IF;
    PERFORM dbanon_internal.demand_different(ARRAY[subject, time_column], 'person and time');
    IF columns && ARRAY[subject, time_column] THEN
        RAISE EXCEPTION 'The content of a request must not name its sender or time. Got column ''%''.',
                CASE WHEN subject = ANY (columns) THEN subject ELSE time_column END
            USING ERRCODE = 'DA011', DETAIL = 'Requests are published as they are.', HINT = 'Leave it out of columns.';
    END IF;
    PERFORM dbanon_internal.demand_different(columns, 'the content');
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_request_columns IS 'Refuses columns of which a request cannot be made.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_sender_columns(dataset_id bigint, span tstzrange) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    WITH sender AS (
        -- Of very many requests, those of some of the people: by a number that is known before they are read, so that others are not sorted.
        SELECT req.subject, pair.key, min(pair.value COLLATE "C") AS low, max(pair.value COLLATE "C") AS high
        FROM ONLY dbanon.request req CROSS JOIN LATERAL jsonb_each_text(req.content) pair
        WHERE req.dataset_id = describe_sender_columns.dataset_id AND req.sent_at <@ span AND abs(hashtext(req.subject)::bigint) % (
            SELECT 1 + count(*) / 100000 FROM ONLY dbanon.request near WHERE near.dataset_id = describe_sender_columns.dataset_id AND near.sent_at <@ span) = 0
        GROUP BY req.subject, pair.key HAVING count(*) > 1
    ), kept AS (
        SELECT sender.key, count(*) AS people, count(*) FILTER (WHERE sender.low <> sender.high) AS changed FROM sender GROUP BY sender.key, sender.low
    ), among AS (
        -- So many people would have two values if each request had one of the people's by chance: none where all have the same one.
        SELECT kept.key, sum(kept.changed) AS changed, sum(kept.people) - sum(kept.people ^ 2) / sum(kept.people) AS by_chance
        FROM kept GROUP BY kept.key
    )
    SELECT format('Columns of requests that hardly change for one sender: %s. A reader that knows the value of each person finds fewer than k '
                  'possible senders of a request. Leave such columns out.', string_agg(among.key, ', ' ORDER BY among.key COLLATE "C"))
    FROM among WHERE among.by_chance >= 10 AND among.changed <= among.by_chance / 10 HAVING count(*) > 0
$$;
COMMENT ON FUNCTION dbanon_internal.describe_sender_columns IS
'Names the columns of requests in a time that are properties of their senders: among people that sent twice, at most a tenth as many as by chance
have two values.';

CREATE OR REPLACE FUNCTION dbanon_internal.add_requests(
    source regclass, asked dbanon_internal.loading, columns text[], keys text[])
RETURNS TABLE (load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb, subjects bigint, left_out jsonb, late_periods jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    staged record := dbanon_internal.stage_events(source, asked, 'requests', NULL, columns, keys);
BEGIN
    -- The same request of the same sender and time is there already; loading a file again adds nothing. OFFSET 0: each by the index.
    WITH gone AS (
        DELETE FROM pg_temp.dbanon_staged sta WHERE EXISTS (
            SELECT FROM dbanon.request req WHERE req.dataset_id = (staged.dataset).dataset_id AND req.subject = sta.subject
                AND req.sent_at = sta.at AND req.content = sta.pairs OFFSET 0) RETURNING sta.*)
    INSERT INTO pg_temp.dbanon_rejected SELECT gone.file, gone.line, CASE asked.mode WHEN 'new' THEN 'known' ELSE 'duplicate-request' END,
        CASE WHEN asked.mode <> 'new' THEN gone.content END, gone.t FROM gone;
    PERFORM dbanon_internal.leave_out_events(asked, staged.dataset, staged.counted);
    load_id := dbanon_internal.begin_record((staged.dataset).dataset_id, 'requests', ARRAY[staged.source_label], staged.units_per_s);
    INSERT INTO dbanon.request (dataset_id, load_id, subject, sent_at, content)
    SELECT (staged.dataset).dataset_id, add_requests.load_id, sta.subject, sta.at, sta.pairs FROM pg_temp.dbanon_staged sta ORDER BY sta.line;
    SELECT count(DISTINCT sta.subject) INTO subjects FROM pg_temp.dbanon_staged sta;
    late_periods := dbanon_internal.count_late_rows((staged.dataset).dataset_id);
    PERFORM dbanon_internal.raise_notice(dbanon_internal.describe_sender_columns(
        (staged.dataset).dataset_id,
        (SELECT tstzrange(least(min(sta.at), max(sta.at) - interval '30 days'), max(sta.at), '[]') FROM pg_temp.dbanon_staged sta HAVING count(*) > 0)));
    SELECT done.rows_read, done.rows_kept, done.quarantined, done.left_out INTO rows_read, rows_kept, quarantined, left_out
    FROM dbanon_internal.write_load(load_id, ARRAY[staged.counted]) done;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION dbanon_internal.add_requests IS 'What dbanon.import_requests does, under names of the pairs that need not be those of the columns.';

CREATE OR REPLACE FUNCTION dbanon.import_requests(
    source regclass, dataset text, columns text[], subject text DEFAULT 'subject', time_column text DEFAULT 'time', tz text DEFAULT NULL,
    mode text DEFAULT 'append', filter text DEFAULT NULL, since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL,
    time_format text DEFAULT NULL, time_unit text DEFAULT NULL, nulls text[] DEFAULT NULL,
    allow_future boolean DEFAULT false)
RETURNS TABLE (load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb, subjects bigint, known bigint, late bigint,
    forgotten bigint, left_out jsonb, late_periods jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    named CONSTANT text[] := ARRAY(SELECT ele.name FROM unnest(columns) WITH ORDINALITY ele (name, ord) ORDER BY ele.ord);
    asked dbanon_internal.loading;
BEGIN
    PERFORM dbanon_internal.demand_request_columns(subject, time_column, named);
    asked := jsonb_populate_record(NULL::dbanon_internal.loading, jsonb_build_object('dataset', dataset, 'subject', subject, 'time_column', time_column,
        'tz', tz, 'mode', mode, 'filter', filter, 'since', since, 'until', until, 'time_format', time_format, 'time_unit', time_unit, 'nulls', nulls,
        'allow_future', allow_future));
    RETURN QUERY SELECT taken.load_id, taken.rows_read, taken.rows_kept, taken.quarantined, taken.subjects, cnt.known, cnt.late, cnt.forgotten,
        taken.left_out, taken.late_periods
        FROM dbanon_internal.add_requests(source, asked, named, named) taken CROSS JOIN dbanon_internal.read_main_counts(taken.left_out) cnt;
END
$$;
COMMENT ON FUNCTION dbanon.import_requests IS
'Adds requests to location-based services from a table or view to a dataset that exists. Name only columns of what was asked for. A column that says
something of the sender, such as an age group or a device, breaks the promise of a release: a reader that knows the ages of people finds fewer than k
possible senders. A notice names columns that hardly change for one sender. Requests are kept whatever their time and sender. A run counts those that
it cannot use.
Arguments:
- source: table or view of the same database.
- dataset: @LoadingRequests.dataset@
- columns: @LoadingRequests.columns@ Empty values are left out.
- subject: @LoadingRequests.subject@
- time_column: @ImportingTrajectories.time@
- tz: @LoadingRequests.tz@
- mode: ''append'' adds to the requests that are there. @LoadingRequests.mode@
- filter: @ImportingTrajectories.filter@
- since: @LoadingRequests.since@
- until: @LoadingRequests.until@
- time_format: @LoadingRequests.time_format@
- time_unit: @LoadingRequests.time_unit@
- nulls: @LoadingRequests.nulls@
- allow_future: @LoadingRequests.allow_future@
Returns: one row.
- load_id: the key of its row in dbanon.load.
- rows_read: how many rows the source had.
- rows_kept: how many of them were stored.
- quarantined: how many were left out, by reason.
- subjects: how many people sent the requests that were kept.
- known: how many rows were there already.
- late: how many rows are of times that were published.
- forgotten: how many rows are of forgotten people.
- left_out: how many rows of these kinds were left out without a copy in dbanon.quarantine, by reason.
- late_periods: the late rows by published period, as [{since, until, rows}].
Raises: DA001, DA011, DA012, DA014.
Example: SELECT * FROM dbanon.import_requests(''public.calls'', dataset => ''taxi'', columns => ARRAY[''poi'']).';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_set_name(set_name text) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- As the table has it.
    IF set_name IS NULL OR set_name = '' OR btrim(set_name) <> set_name OR length(set_name) > 60
        OR set_name ~ dbanon_internal.build_hidden_pattern() THEN
        RAISE EXCEPTION 'The name of a set must be 1 to 60 visible characters, without blanks at its ends. Got %.',
                coalesce(dbanon_internal.quote_text(set_name), 'NULL')
            USING ERRCODE = 'DA011', DETAIL = 'Control characters are not visible.',
                  HINT = 'Leave it out for the set ''default'', or choose another.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_set_name IS 'Refuses what no set of quasi-identifiers can be called.';

CREATE OR REPLACE FUNCTION dbanon.import_quasi_identifiers(
    source regclass, dataset text, subject text DEFAULT 'subject', time_column text DEFAULT 'time', tz text DEFAULT NULL,
    set_name text DEFAULT 'default', replace boolean DEFAULT false, mode text DEFAULT 'append', filter text DEFAULT NULL,
    since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL,
    time_format text DEFAULT NULL, time_unit text DEFAULT NULL, nulls text[] DEFAULT NULL,
    allow_future boolean DEFAULT false)
RETURNS TABLE (load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb, subjects bigint, known bigint, late bigint,
    forgotten bigint, left_out jsonb, late_periods jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    asked dbanon_internal.loading;
    staged record;
    held bigint;
BEGIN
    PERFORM dbanon_internal.demand_different(ARRAY[subject, time_column], 'person and time');
    PERFORM dbanon_internal.demand_set_name(set_name);
    IF replace AND mode = 'new' THEN
        RAISE EXCEPTION 'Quasi-identifiers are either replaced or added where they are new. Got replace and new.'
            USING ERRCODE = 'DA011', DETAIL = 'Where those of the set are deleted first, all are new.', HINT = 'Leave out one of the two.';
    END IF;
    asked := jsonb_populate_record(NULL::dbanon_internal.loading, jsonb_build_object('dataset', dataset, 'subject', subject, 'time_column', time_column,
        'tz', tz, 'mode', mode, 'filter', filter, 'since', since, 'until', until, 'time_format', time_format, 'time_unit', time_unit, 'nulls', nulls,
        'allow_future', allow_future));
    staged := dbanon_internal.stage_events(source, asked, 'quasi-identifiers', set_name, '{}', '{}');
    held := (staged.dataset).dataset_id;
    IF replace THEN
        DELETE FROM dbanon.quasi_identifier qid WHERE qid.dataset_id = held AND qid.set_name = set_name;
    END IF;
    -- OFFSET 0: each by the index.
    WITH gone AS (
        DELETE FROM pg_temp.dbanon_staged sta
        WHERE sta.line IN (SELECT num.line FROM (
                SELECT sam.line, row_number() OVER (PARTITION BY sam.subject, sam.at ORDER BY sam.line) AS nth
                FROM pg_temp.dbanon_staged sam) num WHERE num.nth > 1)
            OR EXISTS (SELECT FROM dbanon.quasi_identifier qid WHERE qid.dataset_id = held AND qid.set_name = set_name
                AND qid.subject = sta.subject COLLATE "default" AND qid.at = sta.at OFFSET 0) RETURNING sta.*)
    INSERT INTO pg_temp.dbanon_rejected SELECT gone.file, gone.line, CASE mode WHEN 'new' THEN 'known' ELSE 'duplicate-quasi-identifier' END,
        CASE WHEN mode <> 'new' THEN gone.content END, gone.t FROM gone;
    PERFORM dbanon_internal.leave_out_events(asked, staged.dataset, staged.counted);
    load_id := dbanon_internal.begin_record(held, 'quasi-identifiers', ARRAY[staged.source_label], staged.units_per_s);
    INSERT INTO dbanon.quasi_identifier (dataset_id, load_id, set_name, subject, at)
    SELECT held, load_id, set_name, sta.subject, sta.at FROM pg_temp.dbanon_staged sta ORDER BY sta.line;
    SELECT count(DISTINCT sta.subject) INTO subjects FROM pg_temp.dbanon_staged sta;
    late_periods := dbanon_internal.count_late_rows(held);
    SELECT done.rows_read, done.rows_kept, done.quarantined, done.left_out INTO rows_read, rows_kept, quarantined, left_out
    FROM dbanon_internal.write_load(load_id, ARRAY[staged.counted]) done;
    SELECT cnt.known, cnt.late, cnt.forgotten INTO known, late, forgotten FROM dbanon_internal.read_main_counts(left_out) cnt;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION dbanon.import_quasi_identifiers IS
'Adds the times at which an adversary may know where a person was, from a table or view, to a set of a dataset that exists.
Arguments:
- source: table or view of the same database.
- dataset: @LoadingQuasiIdentifiers.dataset@
- subject: @LoadingQuasiIdentifiers.subject@
- time_column: @ImportingTrajectories.time@
- tz: @LoadingQuasiIdentifiers.tz@
- set_name: @LoadingQuasiIdentifiers.set_name@
- replace: @LoadingQuasiIdentifiers.replace@
- mode: ''append'' adds to the times that are there. @LoadingQuasiIdentifiers.mode@
- filter: @ImportingTrajectories.filter@
- since: @LoadingQuasiIdentifiers.since@
- until: @LoadingQuasiIdentifiers.until@
- time_format: @LoadingQuasiIdentifiers.time_format@
- time_unit: @LoadingQuasiIdentifiers.time_unit@
- nulls: @LoadingQuasiIdentifiers.nulls@
- allow_future: @LoadingQuasiIdentifiers.allow_future@
Returns: one row.
- load_id: the key of its row in dbanon.load.
- rows_read: how many rows the source had.
- rows_kept: how many of them were stored.
- quarantined: how many were left out, by reason.
- subjects: how many people have one of the times that were kept.
- known: how many rows were there already.
- late: how many rows are of times that were published.
- forgotten: how many rows are of forgotten people.
- left_out: how many rows of these kinds were left out without a copy in dbanon.quarantine, by reason.
- late_periods: the late rows by published period, as [{since, until, rows}].
Raises: DA001, DA011, DA012, DA014.
Example: SELECT * FROM dbanon.import_quasi_identifiers(''public.sightings'', dataset => ''taxi'', set_name => ''cameras'').';
