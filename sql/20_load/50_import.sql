-- From a table, or from what was staged of files, to trajectories; all of it in the transaction and with the rights of
-- the caller. A row is either part of what is stored or in dbanon.quarantine with a reason, never neither and never both. No message
-- holds a coordinate or a subject.

-- ---- trajectories

CREATE OR REPLACE FUNCTION dbanon_internal.finish_load(
    asked dbanon_internal.loading, sources text[], rows_read bigint[], cells jsonb, swap_remedy text, remedy text,
    units_per_s double precision DEFAULT NULL)
RETURNS TABLE (load_id bigint, file_rows bigint, rows_kept bigint, quarantined jsonb, trajectories bigint, subjects bigint,
    target integer, first_time timestamptz, last_time timestamptz, far jsonb, days bigint, left_out jsonb, late_periods jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
    total_rows CONSTANT bigint := (SELECT coalesce(sum(ele.n), 0) FROM unnest(rows_read) ele (n));
    reference_system CONSTANT record := dbanon_internal.demand_reference_system(asked.crs);
    newest CONSTANT bigint := (SELECT coalesce(max(tra.trajectory_id), 0) FROM dbanon.trajectory tra);
    made CONSTANT boolean := asked.mode = 'replace' OR dbanon_internal.makes_dataset(asked);
    may_be_none CONSTANT boolean := asked.mode = 'new' AND NOT made;
    sample record;
    survey jsonb;
    dataset dbanon.dataset;
    first_load_id bigint;
    staged bigint;
    shapes bigint;
    kept bigint := 0;
    newest_time timestamptz;
BEGIN
    -- What staging left out may already be too much: rows outside the box with swapped axes, or all of them.
    PERFORM dbanon_internal.demand_unswapped(rows_read, swap_remedy);
    PERFORM dbanon_internal.demand_usable_rows(total_rows, remedy, may_be_none, cells);
    PERFORM dbanon_internal.report_stage('looking for wild positions');
    SELECT count(*), count(sta.shape) INTO staged, shapes FROM pg_temp.dbanon_staged sta;
    IF staged > 0 THEN
        sample := dbanon_internal.draw_sample(staged);
        -- What the dataset has needs no judgement, which would take longer than to find it; the rest is judged beside it.
        IF may_be_none AND shapes = 0 THEN
            staged := dbanon_internal.leave_out_known(dbanon_internal.demand_dataset(asked.dataset), reference_system.srid, cells);
        END IF;
    END IF;
    IF staged > 0 THEN
        -- Where the fixes are decides the reference system, which axis is which, and what lies far outside the rest.
        survey := dbanon_internal.survey_shape(sample.x, sample.y, sample.t, reference_system.geographic);
        target := dbanon_internal.survey_place(survey, asked.crs, (CASE WHEN asked.mode = 'append' OR may_be_none
            THEN (dbanon_internal.demand_dataset(asked.dataset)).srid ELSE asked.srid END)::integer, swap_remedy);
        -- Then the same question for single rows, after which most of a file may turn out to be swapped. Such rows come first, since they
        -- too lie far outside the rest.
        PERFORM dbanon_internal.leave_out_wild(cells, survey, coalesce(asked.drop_outliers, false));
        PERFORM dbanon_internal.demand_unswapped(rows_read, swap_remedy);
    END IF;
    -- Its row says how days are cut from here on: what is added is cut as what is there, whatever the call said.
    dataset := dbanon_internal.write_dataset(asked, target);
    target := dataset.srid;
    first_load_id := dbanon_internal.begin_record(dataset.dataset_id, 'trajectories', sources, units_per_s);
    -- Twins and rows that are there already go in this step, so there must be usable rows left after it, too.
    PERFORM dbanon_internal.report_stage('making trajectories'), dbanon_internal.report_rows('making trajectories', staged);
    IF shapes > 0 THEN  -- some of them may have been left out
        SELECT count(sta.shape) INTO shapes FROM pg_temp.dbanon_staged sta;
    END IF;
    SELECT built.trajectories, built.subjects INTO trajectories, subjects
    FROM dbanon_internal.make_trajectories(asked, dataset, reference_system.srid, shapes > 0, cells, first_load_id) built;
    PERFORM dbanon_internal.demand_usable_rows(total_rows, remedy, may_be_none, cells);
    -- Figures and notices, from what is left in the staging table, which is what was kept. Without a survey no row was staged.
    far := '{}';
    IF survey IS NOT NULL THEN
        SELECT cnt.kept, cnt.first_time, cnt.last_time, cnt.far INTO kept, first_time, last_time, far FROM dbanon_internal.count_kept(survey) cnt;
    END IF;
    IF kept > 0 THEN
        newest_time := dbanon_internal.find_honest_time(survey, sample.t);
        IF dataset.day_zone IS NOT NULL THEN
            SELECT count(*) INTO days FROM (
                SELECT DISTINCT sta.subject, (to_timestamp(sta.t) AT TIME ZONE dataset.day_zone)::date FROM pg_temp.dbanon_staged sta) seen;
            PERFORM dbanon_internal.raise_notice(CASE WHEN made THEN format(
                'Each day of a person is separate, from midnight to midnight in %s. People are counted once.', dataset.day_zone) END);
        END IF;
        IF asked.subject <> '-' THEN
            PERFORM dbanon_internal.note_rounding(EXISTS (
                SELECT FROM dbanon.trajectory tra WHERE tra.load_id = first_load_id AND dbanon_internal.is_rounded(tra.subject)), kept, first_time, last_time);
        END IF;
        PERFORM dbanon_internal.raise_notice(dbanon_internal.describe_far((far ->> 'far-position')::bigint, 'position'));
        PERFORM dbanon_internal.raise_notice(dbanon_internal.describe_far((far ->> 'far-time')::bigint, 'time'));
        PERFORM dbanon_internal.raise_notice(format('%s more than %s km/h from the fix before and %s kept. Load with drop_outliers => true to leave %s out.',
            dbanon_internal.format_quantity(fast.n, 'fix implies', 'fixes imply'), asked.max_speed_kmh, CASE fast.n WHEN 1 THEN 'was' ELSE 'were' END,
            CASE fast.n WHEN 1 THEN 'it' ELSE 'them' END)) FROM (SELECT (far ->> 'too-fast')::bigint AS n) fast WHERE fast.n > 0;
        PERFORM dbanon_internal.raise_notice(dbanon_internal.describe_stretch(sample.x, sample.y, survey, asked.crs, target));
        IF shapes > 0 THEN
            -- The owner of the table may have meant lines as trajectories.
            PERFORM dbanon_internal.raise_notice(
                dbanon_internal.format_quantity(shapes, 'row holds a line or an area, and it', 'rows hold lines or areas, and each')
                || ' became the rectangle around it, at one time. Take lines of positions apart with ST_DumpPoints in a view and import that.');
        END IF;
        -- A copy matters only where every row is a separate subject.
        PERFORM dbanon_internal.raise_notice(CASE asked.subject WHEN '-' THEN dbanon_internal.describe_repeats(dataset.dataset_id, newest) END);
        PERFORM dbanon_internal.raise_notice(note.notice) FROM dbanon_internal.note_copies(dataset.dataset_id, newest, first_load_id) note (notice);
    END IF;
    PERFORM dbanon_internal.raise_notice(note.notice)
        FROM dbanon_internal.describe_left_out(total_rows, kept, may_be_none, dataset.kept_since) note (notice);
    late_periods := dbanon_internal.count_late_rows(dataset.dataset_id);
    FOR load_id, file_rows, rows_kept, quarantined, left_out IN
        SELECT done.* FROM dbanon_internal.write_load(first_load_id, rows_read, newest_time) done
    LOOP
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.finish_load IS
'Makes trajectories of what was staged since dbanon_internal.begin_load, and the record of it. Raises an error if no row can be used, or if axes are
swapped.';

CREATE OR REPLACE FUNCTION dbanon_internal.judge_suspects(
    asked dbanon_internal.loading, geographic boolean, places text[], sources text[]) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    nobody CONSTANT text[] := dbanon_internal.list_null_names(asked);
    last_s CONSTANT double precision := dbanon_internal.find_last_time(asked);
BEGIN
    PERFORM dbanon_internal.settle_staged(asked, 'trajectories', sources, num_nonnulls(asked.since, asked.until) > 0, '{dbanon_staged,dbanon_suspect}');
    WITH judged AS MATERIALIZED (
        SELECT sus.*, dbanon_internal.find_fix_fault(sus.subject, sus.trip, sus.t, 0, sus.x, sus.y, nobody, last_s, 0, geographic, EXISTS (
            SELECT FROM jsonb_each_text(sus.content) cell
            WHERE cell.key = ANY (places) AND (coalesce(btrim(cell.value), '') = ANY (nobody || ''::text) OR cell.value ~* ' EMPTY$')), asked.bbox) AS reason
        FROM pg_temp.dbanon_suspect sus
    ), gone AS (
        INSERT INTO pg_temp.dbanon_rejected SELECT jud.file, jud.line, jud.reason, jud.content, jud.t FROM judged jud WHERE jud.reason IS NOT NULL
    )
    INSERT INTO pg_temp.dbanon_staged (file, line, subject, trip, t, x, y)
        SELECT jud.file, jud.line, jud.subject, jud.trip, jud.t, jud.x, jud.y FROM judged jud WHERE jud.reason IS NULL;
    PERFORM dbanon_internal.note_nobody(asked);
END
$$;
COMMENT ON FUNCTION dbanon_internal.judge_suspects IS
'Judges the rows of pg_temp.dbanon_suspect, those of files in which something may be wrong, as rows of tables are, with positions in the columns of
places: stages them or leaves them out.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_fix_source(
    asked dbanon_internal.loading, chosen text, types jsonb, units_per_s double precision) RETURNS text
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT format(
        'SELECT raw.raw_subject, raw.raw_trip, raw.raw_time, raw.raw_x, raw.raw_y, %s, tim.t, tim.repeated, %s AS x, %s AS y '
        'FROM (SELECT %s AS raw_subject, %s AS raw_trip, %s AS raw_time, %s AS raw_x, %s AS raw_y, %s FROM %s) raw CROSS JOIN LATERAL %s',
        CASE WHEN (asked).time_column IS NULL THEN 'tim.raw_geom, tim.raw_cell' ELSE 'raw.raw_geom, NULL::text AS raw_cell' END,
        coalesce(dbanon_internal.build_number('raw.raw_x', types ->> (asked).x), 'NULL::float8'),
        coalesce(dbanon_internal.build_number('raw.raw_y', types ->> (asked).y), 'NULL::float8'),
        coalesce(quote_ident(nullif((asked).subject, '-')), 'NULL') || '::text', coalesce(quote_ident((asked).trip), 'NULL') || '::text',
        coalesce(quote_ident((asked).time_column), 'NULL::text'), coalesce(quote_ident((asked).x), 'NULL::text'),
        coalesce(quote_ident((asked).y), 'NULL::text'),
        CASE WHEN (asked).time_column IS NULL THEN format('%I::text AS written', (asked).geom)
            ELSE coalesce(quote_ident((asked).geom), 'NULL') || '::@postgis@.geometry AS raw_geom' END, chosen,
        -- Without a column of times, those of moving points count.
        CASE WHEN (asked).time_column IS NULL THEN format(
                '(SELECT ins.*, false AS repeated FROM dbanon_internal.read_moving_instants(raw.written, %L) ins (t, raw_geom, raw_cell)) tim',
                (asked).tz)
            ELSE dbanon_internal.build_reading('raw.raw_time', types, asked, units_per_s) END)
$$;
COMMENT ON FUNCTION dbanon_internal.build_fix_source IS
'Writes the query of pg_temp.dbanon_source for fixes: the cells of a row as they are, and what is read from them. Raises an error if they hold no times.';

CREATE OR REPLACE FUNCTION dbanon_internal.stage_fixes(
    asked dbanon_internal.loading, qualified text, query text, source_srid integer, geographic boolean, first_number bigint, names_time boolean)
RETURNS bigint LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET synchronize_seqscans = off  -- rows come in the order of the table, which decides between contradicting fixes
SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    alone CONSTANT boolean := coalesce(asked.subject = '-', false);
    given_xy CONSTANT boolean := asked.x IS NOT NULL;
    is_moving CONSTANT boolean := asked.time_column IS NULL;  -- each value is a moving point, and makes many rows here
    nobody CONSTANT text[] := dbanon_internal.list_null_names(asked);
    last_s CONSTANT double precision := dbanon_internal.find_last_time(asked);
    names CONSTANT text[] := ARRAY[
        coalesce(nullif(asked.subject, '-'), ''), coalesce(asked.time_column, ''), coalesce(asked.geom, ''), coalesce(asked.x, ''), coalesce(asked.y, ''),
        coalesce(nullif(asked.trip, asked.subject), '')];
    -- Of a part of a table nobody has estimated the rows.
    total CONSTANT double precision := (
        SELECT cla.reltuples FROM pg_class cla
        WHERE cla.oid = qualified::regclass AND NOT is_moving AND num_nonnulls(asked.filter, asked.since, asked.until) = 0);
    stage CONSTANT text := 'reading ' || qualified;
    context text;
    rows_read bigint;
BEGIN
    PERFORM dbanon_internal.show_source(query);
    BEGIN
        SET LOCAL search_path = pg_catalog, @postgis@, pg_temp;
        -- From inside out, the subqueries number the rows, read who and where, and find what is wrong with each row. A good row has no content:
        -- report_rows, which says how far the load is, gives NULL. raw_cell is the text of a moving point that cannot be read. OFFSET 0 keeps
        -- the planner from computing an expression once for each use of it. The source may call functions of PostGIS by the search path
        -- (12_source); nothing that stands here does.
        INSERT INTO pg_temp.dbanon_staged (file, line, subject, trip, t, x, y, shape, reason, content, repeated)
        SELECT 0, jud.line, jud.subject, jud.trip, jud.t, jud.x, jud.y, CASE WHEN NOT dbanon_internal.is_point(jud.raw_geom) THEN jud.raw_geom END, jud.reason,
            CASE WHEN jud.reason IS NOT NULL THEN dbanon_internal.copy_cells(names, ARRAY[
                    jud.raw_subject, jud.raw_time::pg_catalog.text, coalesce(jud.raw_cell, @postgis@.ST_AsText(jud.raw_geom)),
                    jud.raw_x::pg_catalog.text, jud.raw_y::pg_catalog.text, jud.raw_trip])
                WHEN dbanon_internal.is_reported(jud.line) THEN dbanon_internal.report_rows(stage, jud.line, total) END, jud.repeated
        FROM (SELECT rea.*, dbanon_internal.find_fix_fault(rea.subject, rea.trip, rea.t, rea.srid, rea.x, rea.y, nobody, last_s, source_srid, geographic,
                         CASE WHEN is_moving THEN rea.raw_cell IS NULL ELSE true END, asked.bbox) AS reason
              FROM (SELECT num.line, num.raw_subject, num.raw_time, num.raw_geom, num.raw_cell, num.raw_x, num.raw_y, num.raw_trip, num.t, num.repeated,
                        CASE WHEN alone THEN dbanon_internal.name_row(first_number, num.line) ELSE dbanon_internal.read_text(num.raw_subject) END AS subject,
                        dbanon_internal.read_text(num.raw_trip) AS trip, coalesce(@postgis@.ST_SRID(num.raw_geom), 0) AS srid,
                        CASE WHEN given_xy THEN num.x ELSE dbanon_internal.read_x(num.raw_geom, geographic) END AS x,
                        CASE WHEN given_xy THEN num.y ELSE dbanon_internal.read_y(num.raw_geom) END AS y
                    FROM (SELECT pg_catalog.row_number() OVER () AS line, src.* FROM pg_temp.dbanon_source src) num OFFSET 0) rea OFFSET 0) jud;
        GET DIAGNOSTICS rows_read = ROW_COUNT;
        SET LOCAL search_path = pg_catalog, pg_temp;
        DROP VIEW pg_temp.dbanon_source;
    EXCEPTION WHEN others THEN
        GET STACKED DIAGNOSTICS context = PG_EXCEPTION_CONTEXT;
        PERFORM dbanon_internal.raise_reading_error(qualified, SQLSTATE, context);
        RAISE;
    END;
    -- Hours that clocks have twice, and what is not of the span or is forgotten; then the rows with a reason go to dbanon_rejected.
    PERFORM dbanon_internal.settle_staged(asked, 'trajectories', ARRAY['table ' || qualified], names_time);
    PERFORM dbanon_internal.leave_out_marked();
    PERFORM dbanon_internal.note_nobody(asked);
    RETURN rows_read;
END
$$;
COMMENT ON FUNCTION dbanon_internal.stage_fixes IS
'Copies the usable rows of a source, as the query of dbanon_internal.build_fix_source shows them, into dbanon_staged, the others into dbanon_rejected.
Raises an error if the source cannot be read.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_columns(asked dbanon_internal.loading, moving boolean) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF num_nonnulls(asked.x, asked.y) + 2 * num_nonnulls(asked.geom) <> 2 THEN
        RAISE EXCEPTION 'A position must be in one column of geometries, or in two of x and y. Got %.',
                CASE WHEN asked.geom IS NOT NULL THEN 'columns of both' WHEN asked.y IS NULL THEN 'x without y' ELSE 'y without x' END
            USING ERRCODE = 'DA011', DETAIL = 'x is the longitude or easting, y the latitude or northing.',
                  HINT = 'Give x => ... and y => ..., or geom => ....';
    END IF;
    -- Moving points have times of their own, whatever is called so.
    PERFORM dbanon_internal.demand_different(
        array_remove(ARRAY[asked.subject, CASE WHEN NOT moving THEN asked.time_column END, asked.geom, asked.x, asked.y], NULL)
            || CASE WHEN asked.subject IS NULL OR NOT moving AND asked.time_column IS NULL THEN ARRAY[NULL::text] ELSE '{}' END,
        CASE WHEN moving THEN 'person and geometry' WHEN asked.geom IS NULL THEN 'person, time, x and y' ELSE 'person, time and geometry' END);
    IF '-' IN (asked.time_column, asked.geom, asked.trip, asked.x, asked.y) THEN
        RAISE EXCEPTION 'Only the ''subject'' column can be ''-''. Got it for another column.'
            USING ERRCODE = 'DA011', DETAIL = 'It makes every row a separate person.', HINT = 'Name that column.';
    ELSIF asked.x ~* '^(lat|latitude|northing|north)$' AND asked.y ~* '^(lon|lng|long|longitude|easting|east)$' THEN
        PERFORM dbanon_internal.refuse_axes(format('Give x => %L, y => %L.', asked.y, asked.x));
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_columns IS
'Refuses columns of a table that give no position or two, of which one is to be two things, or of which another than the subject''s is ''-''.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_uncut(asked dbanon_internal.loading) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (asked.trip IS NOT NULL OR asked.split_gap_s IS NOT NULL) AND EXISTS (SELECT FROM pg_temp.dbanon_staged s WHERE s.shape IS NOT NULL) THEN
        RAISE EXCEPTION 'Where a table holds lines or areas, each row is a trajectory of one fix, which cannot be cut. Got %.',
                CASE WHEN asked.trip IS NULL THEN format('split_gap_s => %s', asked.split_gap_s) ELSE format('trip => %L', asked.trip) END
            USING ERRCODE = 'DA011', DETAIL = 'A line or an area becomes the rectangle around it, at one time.',
                  HINT = 'Leave it out, or take lines apart with ST_DumpPoints in a view and import that.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_uncut IS 'Refuses to cut trajectories each of which is a single fix.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_numbers(source regclass, types jsonb, named text[]) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    others CONSTANT text[] := ARRAY(
        SELECT ele.name FROM unnest(named) ele (name) WHERE dbanon_internal.build_number('', types ->> ele.name) IS NULL);
BEGIN
    IF others <> '{}' THEN
        RAISE EXCEPTION 'Column ''%'' must hold numbers. It is %.', others[1], types ->> others[1]
            USING ERRCODE = 'DA012', DETAIL = 'A position is two numbers.',
            HINT = (SELECT format('Cast it in a view, and import that with %s instead: %s.', string_agg(quote_literal(ele.name || '_read'), ' and '),
                        format('CREATE VIEW %1$s.%2$I AS SELECT *, %3$s FROM %1$s.%4$I', cla.relnamespace::regnamespace, left(cla.relname, 58) || '_read',
                               string_agg(format('%I::float8 AS %I', ele.name, ele.name || '_read'), ', '), cla.relname))
                    FROM unnest(others) ele (name) CROSS JOIN pg_class cla WHERE cla.oid = source GROUP BY cla.relnamespace, cla.relname);
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_numbers IS 'Refuses columns of coordinates that hold no numbers.';

CREATE OR REPLACE FUNCTION dbanon_internal.import_fixes(source regclass, asked dbanon_internal.loading)
RETURNS TABLE (load_id bigint, file_rows bigint, rows_kept bigint, quarantined jsonb, trajectories bigint, subjects bigint,
    target integer, first_time timestamptz, last_time timestamptz, far jsonb, days bigint, left_out jsonb, late_periods jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET application_name = 'dbanon: loading'
AS $$
DECLARE
    subject CONSTANT text := nullif(asked.subject, '-');
    names_time CONSTANT boolean := num_nonnulls(asked.since, asked.until) > 0;
    moving boolean;
    described record;
    begun record;
    source_label text;
    chosen text;
    units_per_s double precision;
    total_rows bigint;
BEGIN
    IF num_nonnulls(asked.geom, asked.x, asked.y) = 0 THEN asked.geom := 'geom'; END IF;
    -- What was asked for is checked before the dataset is locked, and the source before anything of it is read.
    moving := EXISTS (
        SELECT FROM pg_attribute att JOIN pg_type typ ON typ.oid = att.atttypid
        WHERE att.attrelid = source AND att.attname = asked.geom AND att.attnum > 0 AND NOT att.attisdropped
            AND format_type(coalesce(nullif(typ.typbasetype, 0), typ.oid), NULL) ~ '^(text|character varying|(.*[.])?tgeompoint)$');
    PERFORM dbanon_internal.demand_columns(asked, moving);
    IF moving THEN asked.time_column := NULL; END IF;
    PERFORM dbanon_internal.demand_zone(asked.tz);
    PERFORM dbanon_internal.demand_window(asked);
    described := dbanon_internal.describe_source(
        source, array_remove(ARRAY[subject, asked.time_column, asked.geom, asked.x, asked.y, asked.trip], NULL), subject, asked.geom);
    source_label := 'table ' || described.qualified;
    PERFORM dbanon_internal.demand_filter(described.qualified, asked.filter);
    chosen := dbanon_internal.build_chosen_rows(described.qualified, '{}', NULL, jsonb_populate_record(
        asked, jsonb_build_object('since', NULL, 'until', NULL, 'time_column', coalesce(asked.time_column, asked.geom))));
    IF asked.geom IS NULL THEN
        PERFORM dbanon_internal.demand_numbers(source, described.types, ARRAY[asked.x, asked.y]);
        asked.crs := coalesce(asked.crs, 'EPSG:4326');
    ELSIF moving THEN
        -- A text that is written like no moving point is one of another kind: what it should be is said as of any other type.
        IF asked.crs IS NULL AND described.types ->> asked.geom !~ 'tgeompoint$' AND dbanon_internal.ask_source(format(
            'SELECT position(''@'' IN g)::float8 FROM (SELECT %I::text AS g FROM %s) s WHERE g IS NOT NULL LIMIT 1', asked.geom, chosen),
            described.qualified) = 0 THEN
            PERFORM dbanon_internal.demand_geometry(described.types, asked.geom, source);
        END IF;
        asked.crs := coalesce(asked.crs, dbanon_internal.find_source_crs(described.qualified, asked.geom, format(
            '(SELECT %I::text AS written FROM %s) raw CROSS JOIN LATERAL dbanon_internal.read_moving_instants(raw.written, %L) ins', asked.geom, chosen,
            asked.tz), 'ins.place'));
    ELSE
        PERFORM dbanon_internal.demand_geometry(described.types, asked.geom, source);
        asked.crs := coalesce(asked.crs, dbanon_internal.find_source_crs(described.qualified, asked.geom, chosen));
    END IF;
    begun := dbanon_internal.begin_load(asked);
    asked.since := coalesce(asked.since, dbanon_internal.find_newest_time('trajectories', (
        SELECT dat.dataset_id FROM dbanon.dataset dat WHERE dat.name = asked.dataset AND dat.dropped_at IS NULL AND asked.mode = 'new'),
        NULL) - interval '1 day');
    IF NOT moving THEN  -- of moving points the times are known when they are taken apart
        units_per_s := dbanon_internal.find_units(chosen, described.qualified, described.types ->> asked.time_column, asked, 'trajectories', source_label);
        chosen := dbanon_internal.build_chosen_rows(described.qualified, described.types, units_per_s, asked);
    END IF;
    PERFORM dbanon_internal.report_stage('reading ' || described.qualified);
    total_rows := dbanon_internal.stage_fixes(
        asked, described.qualified, dbanon_internal.build_fix_source(asked, chosen, described.types, units_per_s), begun.source_srid, begun.geographic,
        begun.first_number, names_time);
    PERFORM dbanon_internal.demand_uncut(asked);
    IF NOT moving THEN
        PERFORM dbanon_internal.raise_notice(dbanon_internal.describe_missing_index(source, asked));
    END IF;
    RETURN QUERY SELECT * FROM dbanon_internal.finish_load(
        asked, ARRAY[source_label], ARRAY[total_rows],
        CASE WHEN moving THEN '{}' ELSE jsonb_build_object(asked.time_column, 't') END
            || CASE WHEN asked.geom IS NULL THEN jsonb_build_object(asked.x, 'x', asked.y, 'y') ELSE jsonb_build_object(asked.geom, 'place') END
            || CASE WHEN asked.trip IS NULL THEN '{}' ELSE jsonb_build_object(asked.trip, 'trip') END
            || CASE WHEN subject IS NULL THEN '{}' ELSE jsonb_build_object(subject, 'subject') END,
        CASE WHEN asked.geom IS NULL THEN format('Give x => %L, y => %L.', asked.y, asked.x)
             ELSE format('The geometries of column ''%s'' have y first. Swap them in a view, with ST_FlipCoordinates, and import '
                 'that.', asked.geom) END,
        'Check which columns are named, crs, bbox and the times.', units_per_s);
END
$$;
COMMENT ON FUNCTION dbanon_internal.import_fixes IS 'Does the work of dbanon.import_trajectories, and raises its errors.';

CREATE OR REPLACE FUNCTION dbanon.import_trajectories(
    source regclass, dataset text, subject text DEFAULT 'subject', time_column text DEFAULT 'time', geom text DEFAULT NULL,
    trip text DEFAULT NULL, crs text DEFAULT NULL, srid integer DEFAULT NULL, grid_m double precision DEFAULT 1, grid_s integer DEFAULT 1,
    mode text DEFAULT 'create', split_gap_s double precision DEFAULT NULL, tz text DEFAULT NULL, bbox double precision[] DEFAULT NULL,
    drop_outliers boolean DEFAULT false, max_speed_kmh double precision DEFAULT NULL, subject_per_day boolean DEFAULT false, population text DEFAULT NULL,
    settle_s integer DEFAULT NULL, x text DEFAULT NULL, y text DEFAULT NULL, filter text DEFAULT NULL, since timestamptz DEFAULT NULL,
    until timestamptz DEFAULT NULL, time_format text DEFAULT NULL, time_unit text DEFAULT NULL, nulls text[] DEFAULT NULL,
    allow_future boolean DEFAULT false)
RETURNS TABLE (load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb, trajectories bigint, subjects bigint,
    srid integer, first_time timestamptz, last_time timestamptz, far jsonb, days bigint, known bigint, late bigint, forgotten bigint,
    left_out jsonb, late_periods jsonb)
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
    -- In PL/pgSQL no result could be called srid, as an argument is. The record is made by name.
    SELECT f.load_id, f.file_rows, f.rows_kept, f.quarantined, f.trajectories, f.subjects, f.target, f.first_time, f.last_time, f.far, f.days,
        n.known, n.late, n.forgotten, f.left_out, f.late_periods
    FROM (
        SELECT dataset, subject, time_column, geom, trip, crs, srid, grid_m, grid_s, mode, split_gap_s, tz, bbox, drop_outliers,
            max_speed_kmh, subject_per_day, population, settle_s, x, y, filter, since, until, time_format, time_unit, nulls,
            allow_future) asked
    CROSS JOIN dbanon_internal.import_fixes(source, jsonb_populate_record(NULL::dbanon_internal.loading, to_jsonb(asked))) f
    CROSS JOIN dbanon_internal.read_main_counts(f.left_out) n
$$;
COMMENT ON FUNCTION dbanon.import_trajectories IS
'Loads trajectories from a table or view, one fix a row. It reads the source with the rights of the caller.
Arguments:
- source: table or view of the same database.
- dataset: @ImportingTrajectories.dataset@
- subject: @ImportingTrajectories.subject@
- time_column: @ImportingTrajectories.time@
- geom: @ImportingTrajectories.geom@
- trip: @ImportingTrajectories.trip@
- crs: @ImportingTrajectories.crs@
- srid: @ImportingTrajectories.srid@
- grid_m: @ImportingTrajectories.grid_m@
- grid_s: @ImportingTrajectories.grid_s@
- mode: ''create'' makes the dataset and is refused if there is one of the name. @ImportingTrajectories.mode@
- split_gap_s: @ImportingTrajectories.split_gap_s@
- tz: @ImportingTrajectories.tz@
- bbox: {xmin,ymin,xmax,ymax}. @ImportingTrajectories.bbox@
- drop_outliers: @ImportingTrajectories.drop_outliers@
- max_speed_kmh: @ImportingTrajectories.max_speed_kmh@
- subject_per_day: @ImportingTrajectories.subject_per_day@ All days stay days of the same person (dbanon.subject_day).
- population: @ImportingTrajectories.population@
- settle_s: @ImportingTrajectories.settle_s@
- x: @ImportingTrajectories.x@
- y: @ImportingTrajectories.y@
- filter: @ImportingTrajectories.filter@
- since: @ImportingTrajectories.since@
- until: @ImportingTrajectories.until@
- time_format: @ImportingTrajectories.time_format@
- time_unit: @ImportingTrajectories.time_unit@
- nulls: @ImportingTrajectories.nulls@
- allow_future: @ImportingTrajectories.allow_future@
Returns: one row.
- load_id: the key of its row in dbanon.load.
- rows_read: how many rows the source had.
- rows_kept: how many of them were stored.
- quarantined: how many were left out, by reason. The rows are in dbanon.quarantine.
- trajectories: how many trajectories it made.
- subjects: how many people these are of.
- srid: the SRID of the dataset.
- first_time: the time of the first fix kept. A wrong unit or zone shows here.
- last_time: the time of the last fix kept.
- far: how many fixes it kept although they lie far outside the rest or are too fast, by reason.
- days: how many days of people, NULL where people are not cut into days.
- known: how many rows were there already.
- late: how many rows are of times that were published.
- forgotten: how many rows are of forgotten people.
- left_out: how many rows of these kinds were left out without a copy in dbanon.quarantine, by reason.
- late_periods: the late rows by published period, as [{since, until, rows}].
Raises: DA001, DA011, DA012, DA014. Then nothing is stored. Notices point to rows that the caller should look at.
Example: SELECT * FROM dbanon.import_trajectories(''public.gps'', dataset => ''taxi'', subject => ''cab'', time_column => ''ts'', x => ''lon'', y =>
''lat'', mode => ''new'').';
