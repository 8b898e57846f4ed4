-- From staged fixes to rows of dbanon.trajectory: order, twins, lines and reprojection. Each step is one statement over all rows.

CREATE OR REPLACE FUNCTION dbanon_internal.order_staged(known dbanon.dataset, shaped boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    day CONSTANT text := CASE WHEN known.day_zone IS NULL THEN 'NULL::date' ELSE format('(to_timestamp(s.t) AT TIME ZONE %L)::date', known.day_zone) END;
    firsts bigint;
BEGIN
    -- Two loads may be of one transaction.
    IF to_regclass('pg_temp.dbanon_ordered') IS NOT NULL THEN
        DROP TABLE pg_temp.dbanon_ordered;
    END IF;
    -- The first row of a subject and time is kept; later ones repeat it or contradict it, which is reported apart. Columns of one width
    -- come first: the others are in each row's own place.
    EXECUTE format(
        'CREATE TEMP TABLE dbanon_ordered ON COMMIT DROP AS '
        'SELECT DISTINCT ON (s.subject, s.t) s.file, s.line, s.t, s.x, s.y, s.ctid AS staged, true AS kept, 0 AS part, s.subject, s.trip, '
        '    %s AS day, s.shape, s.place, NULL::text AS reason '
        'FROM pg_temp.dbanon_staged s ORDER BY s.subject, s.t, s.file, s.line', day);
    GET DIAGNOSTICS firsts = ROW_COUNT;
    -- Most loads have no others, and need not look for them: window functions over all rows take half as long again as the sort.
    IF firsts < (SELECT count(*) FROM pg_temp.dbanon_staged) THEN
        EXECUTE format(
            'INSERT INTO pg_temp.dbanon_ordered '
            'SELECT s.file, s.line, s.t, s.x, s.y, s.ctid, false, 0, s.subject, s.trip, %s, s.shape, s.place, '
            '    CASE WHEN %s THEN ''duplicate-fix'' ELSE ''contradicting-fix'' END '
            'FROM pg_temp.dbanon_ordered o JOIN pg_temp.dbanon_staged s ON s.subject = o.subject AND s.t = o.t AND s.ctid <> o.staged',
            day, CASE WHEN shaped THEN 's.place OPERATOR(@postgis@.=) o.place' ELSE 's.x = o.x AND s.y = o.y' END);
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.order_staged(dbanon.dataset, boolean) IS
'Sorts the staged fixes of each subject by time into pg_temp.dbanon_ordered, and marks those that repeat or contradict an earlier
row.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_ordered_middle(target integer) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    -- Source and target need not be parallel, so the middle is that of the rectangle stored.
    SELECT format('@postgis@.ST_SetSRID(@postgis@.ST_MakePointM(%s, %s, ord.t), %s)',
                  dbanon_internal.build_middle_expression('ord.place', 'x', false),
                  dbanon_internal.build_middle_expression('ord.place', 'y', false), target)
$$;
COMMENT ON FUNCTION dbanon_internal.build_ordered_middle(integer) IS
'Writes the middle of the rectangle of a row ord of dbanon_ordered, with its time as M.';

CREATE OR REPLACE FUNCTION dbanon_internal.mark_stored(known dbanon.dataset, source_srid integer, shaped boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Only trajectories of these subjects that overlap in time with what is added are looked at, each by the index: OFFSET 0 keeps the
    -- planner from reading all that the dataset has. Reprojected twice, a position may differ in its last bits: within a millimetre it
    -- is the same.
    EXECUTE format(
        'WITH span AS MATERIALIZED ('
        '  SELECT subject COLLATE "default" AS subject, min(t) AS low, max(t) AS high FROM pg_temp.dbanon_ordered WHERE kept GROUP BY subject), '
        'stored AS MATERIALIZED ('
        '  SELECT span.subject COLLATE "C" AS subject, @postgis@.ST_M(point.geom) AS t, @postgis@.ST_Force2D(point.geom) AS place '
        '  FROM span CROSS JOIN LATERAL (SELECT tra.path FROM dbanon.trajectory tra WHERE tra.dataset_id = %s AND tra.subject = span.subject '
        '      AND tra.last_s >= span.low AND tra.first_s <= span.high OFFSET 0) tra '
        '  CROSS JOIN LATERAL @postgis@.ST_DumpPoints(tra.path) point '
        '  WHERE @postgis@.ST_M(point.geom) BETWEEN span.low AND span.high) '
        'UPDATE pg_temp.dbanon_ordered ord SET kept = false, reason = CASE WHEN @postgis@.ST_DWithin(%s, stored.place, 0.001::double precision) '
        '  THEN ''duplicate-fix'' ELSE ''contradicting-fix'' END '
        'FROM stored WHERE ord.kept AND ord.subject = stored.subject AND ord.t = stored.t',
        known.dataset_id,
        CASE WHEN shaped THEN dbanon_internal.build_ordered_middle(known.srid) ELSE format(
            '@postgis@.ST_Transform(@postgis@.ST_SetSRID(@postgis@.ST_MakePoint(ord.x, ord.y), %s), %s)', source_srid, known.srid) END);
END
$$;
COMMENT ON FUNCTION dbanon_internal.mark_stored(dbanon.dataset, integer, boolean) IS
'Marks ordered fixes of a subject and time that the dataset has already: the same rows added twice add nothing.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_ordered_fixes(asked dbanon_internal.loading, most integer DEFAULT 100000) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Most loads cut nothing; then the rows are read as they are, without two window functions over all of them.
    IF asked.split_gap_s IS NULL AND NOT EXISTS (
        SELECT FROM pg_temp.dbanon_ordered ord WHERE ord.kept GROUP BY ord.subject, ord.trip HAVING count(*) > most) THEN
        RETURN '(SELECT * FROM pg_temp.dbanon_ordered WHERE kept)';
    END IF;
    -- A part ends where a gap is too long, or after `most` fixes, which bounds the size of a line.
    RETURN format(
        '(SELECT subject, trip, day, t, x, y, count(*) FILTER (WHERE gap > %L::float8 OR nth %% %s = 0) '
        '    OVER (PARTITION BY subject, trip, day ORDER BY t) AS part '
        ' FROM (SELECT *, t - lag(t) OVER (PARTITION BY subject, trip, day ORDER BY t) AS gap, '
        '              row_number() OVER (PARTITION BY subject, trip, day ORDER BY t) - 1 AS nth '
        '       FROM pg_temp.dbanon_ordered WHERE kept) spaced)', coalesce(asked.split_gap_s, 'Infinity'), most);
END
$$;
COMMENT ON FUNCTION dbanon_internal.build_ordered_fixes(dbanon_internal.loading, integer) IS
'Writes what lines are made of: the kept fixes, their parts numbered where gaps or their length cut them.';

CREATE OR REPLACE FUNCTION dbanon_internal.insert_lines(
    asked dbanon_internal.loading, known dbanon.dataset, source_srid integer, load_id bigint, OUT trajectories bigint, OUT subjects bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET extra_float_digits = 1
AS $$
DECLARE
    off_the_map bigint;
BEGIN
    -- Whole lines are reprojected at once, ten times as fast as single fixes.
    EXECUTE format(
        'WITH made AS ('
        '  INSERT INTO dbanon.trajectory (dataset_id, load_id, subject, path) '
        '  SELECT %s, %s, subject, CASE @postgis@.ST_NPoints(line) WHEN 1 THEN @postgis@.ST_StartPoint(line) ELSE line END '
        '  FROM (SELECT subject, trip, day, part, @postgis@.ST_Transform(@postgis@.ST_SetSRID(@postgis@.ST_MakeLine('
        '            @postgis@.ST_MakePointM(x, y, t) ORDER BY t), %s), %s) AS line '
        '        FROM %s fixes GROUP BY subject, trip, day, part) lines '
        '  ORDER BY subject, trip, day, part RETURNING subject, path) '
        'SELECT count(*), count(DISTINCT subject), count(*) FILTER (WHERE NOT ('
        '  @postgis@.ST_XMin(@postgis@.Box3D(path)) > ''-1e12'' AND @postgis@.ST_YMin(@postgis@.Box3D(path)) > ''-1e12'' '
        '  AND @postgis@.ST_XMax(@postgis@.Box3D(path)) < 1e12 AND @postgis@.ST_YMax(@postgis@.Box3D(path)) < 1e12)) FROM made',
        known.dataset_id, load_id, source_srid, known.srid, dbanon_internal.build_ordered_fixes(asked))
    INTO trajectories, subjects, off_the_map;
    -- The same as where PROJ refuses: the caller finds the fixes one by one, and makes the lines again.
    IF off_the_map > 0 THEN
        RAISE EXCEPTION 'Every position must lie where SRID % shows it. Some do not.', known.srid
            USING ERRCODE = 'internal_error',
                  DETAIL = format('%s one.', dbanon_internal.format_quantity(off_the_map, 'trajectory has', 'trajectories have')),
                  HINT = 'dbanon_internal.make_trajectories finds them, as it does where PROJ itself refuses.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.insert_lines(dbanon_internal.loading, dbanon.dataset, integer, bigint) IS
'Stores the kept ordered fixes as trajectories, in the reference system of the dataset. Raises an error if that system shows no place for one.';

CREATE OR REPLACE FUNCTION dbanon_internal.insert_shapes(known dbanon.dataset, load_id bigint, OUT trajectories bigint, OUT subjects bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE format(
        'WITH made AS ('
        '  INSERT INTO dbanon.trajectory (dataset_id, load_id, subject, path, shape) '
        '  SELECT %s, %s, ord.subject, %s, CASE WHEN ord.shape IS NOT NULL THEN ord.place END '
        '  FROM pg_temp.dbanon_ordered ord WHERE ord.kept ORDER BY ord.subject, ord.t RETURNING subject) '
        'SELECT count(*), count(DISTINCT subject) FROM made', known.dataset_id, load_id, dbanon_internal.build_ordered_middle(known.srid))
    INTO trajectories, subjects;
END
$$;
COMMENT ON FUNCTION dbanon_internal.insert_shapes(dbanon.dataset, bigint) IS
'Stores the kept ordered rows of which some are lines or areas as trajectories of one fix, each at the middle of its rectangle.';

CREATE OR REPLACE FUNCTION dbanon_internal.make_ordered(
    asked dbanon_internal.loading, known dbanon.dataset, source_srid integer, shaped boolean, content text, load_id bigint,
    OUT trajectories bigint, OUT subjects bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    published tstzmultirange;
BEGIN
    -- Order within what is added; then, for an append, against what is stored; what was found in either goes to the quarantine, but where
    -- what is new is looked for, known rows are counted alone, and new ones of a time that was published.
    PERFORM dbanon_internal.order_staged(known, shaped);
    IF asked.mode IN ('append', 'new') THEN
        PERFORM dbanon_internal.mark_stored(known, source_srid, shaped);
    END IF;
    IF asked.max_speed_kmh IS NOT NULL THEN
        PERFORM dbanon_internal.mark_too_fast(asked, known, source_srid);
    END IF;
    IF asked.mode = 'new' THEN
        published := dbanon_internal.find_published_times(known.dataset_id);
        UPDATE pg_temp.dbanon_ordered SET reason = 'known' WHERE reason = 'duplicate-fix';
        UPDATE pg_temp.dbanon_ordered ord SET kept = false, reason = 'late' WHERE ord.kept AND published @> to_timestamp(ord.t);
    END IF;
    EXECUTE format('INSERT INTO pg_temp.dbanon_rejected SELECT file, line, reason, CASE WHEN reason <> ALL (%L::text[]) THEN %s END, t '
                   'FROM pg_temp.dbanon_ordered WHERE NOT kept', dbanon_internal.list_counted_reasons(), content);
    IF shaped THEN
        SELECT built.trajectories, built.subjects INTO trajectories, subjects FROM dbanon_internal.insert_shapes(known, load_id) built;
    ELSE
        SELECT built.trajectories, built.subjects INTO trajectories, subjects
        FROM dbanon_internal.insert_lines(asked, known, source_srid, load_id) built;
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.make_ordered(dbanon_internal.loading, dbanon.dataset, integer, boolean, text, bigint) IS
'Orders the staged fixes, leaves out twins and what is there, and stores the rest.';

CREATE OR REPLACE FUNCTION dbanon_internal.leave_out_unplaced(source_srid integer, target integer, content text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- By thousands first, one by one only where a thousand failed.
    EXECUTE format(
        'WITH blocks AS MATERIALIZED ('
        '  SELECT file, line / 1000 AS block FROM pg_temp.dbanon_staged GROUP BY file, line / 1000 HAVING dbanon_internal.reproject('
        '    @postgis@.ST_SetSRID(@postgis@.ST_Collect(@postgis@.ST_MakePoint(x, y)), %1$s), %2$s) IS NULL), '
        'gone AS ('
        '  DELETE FROM pg_temp.dbanon_staged s USING blocks b WHERE s.file = b.file AND s.line / 1000 = b.block '
        '    AND dbanon_internal.reproject(@postgis@.ST_SetSRID(@postgis@.ST_MakePoint(s.x, s.y), %1$s), %2$s) IS NULL RETURNING s.*) '
        'INSERT INTO pg_temp.dbanon_rejected SELECT file, line, ''position-out-of-range'', %3$s, t FROM gone', source_srid, target, content);
END
$$;
COMMENT ON FUNCTION dbanon_internal.leave_out_unplaced(integer, integer, text) IS
'Finds the staged fixes that a projection cannot show, and leaves them out.';

CREATE OR REPLACE FUNCTION dbanon_internal.locate_staged(source_srid integer, target integer, content text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT
SET search_path = pg_catalog, pg_temp
SET extra_float_digits = 1
AS $$
BEGIN
    UPDATE pg_temp.dbanon_staged s SET place = @postgis@.ST_Envelope(dbanon_internal.reproject(
        @postgis@.ST_SetSRID(coalesce(s.shape, @postgis@.ST_MakePoint(s.x, s.y)), source_srid), target));
    PERFORM dbanon_internal.leave_out('place IS NULL', '''position-out-of-range''', content);
END
$$;
COMMENT ON FUNCTION dbanon_internal.locate_staged(integer, integer, text) IS
'Finds the rectangle of each staged row in the reference system of the dataset, and leaves out those it cannot show.';

CREATE OR REPLACE FUNCTION dbanon_internal.make_trajectories(
    asked dbanon_internal.loading, known dbanon.dataset, source_srid integer, shaped boolean, content text, load_id bigint,
    OUT trajectories bigint, OUT subjects bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET extra_float_digits = 1
SET work_mem = '256MB'
AS $$
BEGIN
    -- Shapes are reprojected one by one before the rest, since each keeps its own rectangle.
    IF shaped THEN
        PERFORM dbanon_internal.locate_staged(source_srid, known.srid, content);
    END IF;
    BEGIN
        SELECT built.trajectories, built.subjects INTO trajectories, subjects
        FROM dbanon_internal.make_ordered(asked, known, source_srid, shaped, content, load_id) built;
    EXCEPTION WHEN internal_error THEN
        -- PROJ refuses a line for one fix it cannot show. Those that did it are left out, and the work is done again.
        PERFORM dbanon_internal.leave_out_unplaced(source_srid, known.srid, content);
        SELECT built.trajectories, built.subjects INTO trajectories, subjects
        FROM dbanon_internal.make_ordered(asked, known, source_srid, shaped, content, load_id) built;
    END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.make_trajectories(dbanon_internal.loading, dbanon.dataset, integer, boolean, text, bigint) IS
'Makes trajectories of the staged fixes; those that the projection cannot show are left out.';

-- ---- copies

CREATE OR REPLACE FUNCTION dbanon_internal.describe_repeats(dataset_id bigint, newest_before bigint) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT
SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
AS $$
DECLARE
    counted record;
    repeats bigint;
    low double precision;
    high double precision;
BEGIN
    SELECT min(tra.last_s), max(tra.last_s) INTO low, high FROM dbanon.trajectory tra
        WHERE tra.dataset_id = describe_repeats.dataset_id AND tra.trajectory_id > newest_before;
    -- Two rows of the same time and place may be two people, so none is left out. Rows are compared as what is stored of them: the time,
    -- and the place or the bounds of a shape to the millimetre.
    SELECT sum(cnt.added)::bigint AS added, coalesce(sum(cnt.added) FILTER (WHERE cnt.added < cnt.every), 0)::bigint AS again,
        coalesce(sum(cnt.added - 1) FILTER (WHERE cnt.added = cnt.every), 0)::bigint AS twins
    INTO counted
    FROM (SELECT count(*) AS every, count(*) FILTER (WHERE lin.is_new) AS added
          FROM (SELECT tra.trajectory_id > newest_before AS is_new, @postgis@.ST_M(tra.path) AS t,
                    @postgis@.Box3D(coalesce(tra.shape, tra.path)) AS b
                FROM dbanon.trajectory tra
                -- Each is of one fix: of the others those of the same time are enough.
                WHERE tra.dataset_id = describe_repeats.dataset_id AND tra.last_s BETWEEN low AND high OFFSET 0) lin
          GROUP BY lin.t, round(@postgis@.ST_XMin(lin.b) * 1000), round(@postgis@.ST_YMin(lin.b) * 1000),
              round(@postgis@.ST_XMax(lin.b) * 1000), round(@postgis@.ST_YMax(lin.b) * 1000)) cnt
    WHERE cnt.added > 0;
    IF counted.again > 0 AND 2 * counted.again >= counted.added THEN
        RAISE EXCEPTION 'Added rows must be new. The dataset has the time and place of % of the %, each of which would be one more person.', dbanon_internal.format_count(counted.again), dbanon_internal.format_quantity(counted.added, 'row')
            USING ERRCODE = 'DA012', DETAIL = 'Every row is a separate person here.', HINT = 'Leave out rows that were loaded before.';
    END IF;
    repeats := counted.again + counted.twins;
    RETURN CASE repeats WHEN 0 THEN NULL
        ELSE format('%s the time and place of another. Each row counts as a separate person here. Where it is a copy, people would hide among '
            'copies of themselves: load without copies.', dbanon_internal.format_quantity(repeats, 'row repeats', 'rows repeat')) END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.describe_repeats(bigint, bigint) IS
'Says how many trajectories of a load, each a row that is a separate subject, repeat the time and place of an earlier row of the dataset: a subject
hidden only by its own copy is not hidden. Raises an error if at least half of them repeat an earlier load.';
