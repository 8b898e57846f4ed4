-- From staged fixes to rows of dbanon.trajectory: twins, lines and reprojection. Each step is one statement over all rows. A step moves
-- the rows that it does not store from pg_temp.dbanon_staged to pg_temp.dbanon_rejected, with their reason.

CREATE OR REPLACE FUNCTION dbanon_internal.make_middle(place @postgis@.geometry, t double precision, srid integer) RETURNS @postgis@.geometry
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN @postgis@.ST_SetSRID(@postgis@.ST_MakePointM(dbanon_internal.find_middle_x(place, false), dbanon_internal.find_middle_y(place), t), srid);
COMMENT ON FUNCTION dbanon_internal.make_middle IS 'The middle of a rectangle, with a time as M.';

CREATE OR REPLACE FUNCTION dbanon_internal.is_at(
    x double precision, y double precision, rectangle @postgis@.geometry, source_srid integer, stored @postgis@.geometry) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
-- Reprojected twice, a position may differ in its last bits: within a millimetre it is the same. Source and target need not be parallel, so
-- the middle of a shape is that of the rectangle stored.
RETURN @postgis@.ST_DWithin(CASE WHEN rectangle IS NULL
    THEN @postgis@.ST_Transform(@postgis@.ST_SetSRID(@postgis@.ST_MakePoint(x, y), source_srid), @postgis@.ST_SRID(stored))
    ELSE dbanon_internal.make_middle(rectangle, 0, @postgis@.ST_SRID(stored)) END, stored, 0.001::double precision);
COMMENT ON FUNCTION dbanon_internal.is_at IS 'Says whether a staged fix, or the rectangle of a shape, has the position of one that is stored.';

CREATE OR REPLACE FUNCTION dbanon_internal.leave_out_stored(
    dataset dbanon.dataset, source_srid integer, shaped boolean, twin text, cells jsonb, only_same boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp SET work_mem = '256MB'
SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    -- Only trajectories of these subjects that overlap in time with what is added are looked at, each by the index of subjects: OFFSET 0 keeps
    -- the planner from reading all that the dataset has, and the pair from going through all of a time for each subject. To take fixes apart
    -- takes longest, so it is done with those of that time alone: the ends that PostGIS makes where it cuts a path lie a second outside. A path
    -- of one fix is not cut: of that PostGIS 3.3 returns memory that it has freed.
    WITH span AS MATERIALIZED (
        SELECT sta.subject COLLATE "default" AS subject, min(sta.t) AS low, max(sta.t) AS high FROM pg_temp.dbanon_staged sta GROUP BY sta.subject
    ), stored AS (
        SELECT span.subject COLLATE "C" AS subject, @postgis@.ST_M(point.geom) AS t, @postgis@.ST_Force2D(point.geom) AS place
        FROM span CROSS JOIN LATERAL (SELECT tra.* FROM dbanon.trajectory tra WHERE tra.dataset_id = dataset.dataset_id AND tra.subject = span.subject
            AND (tra.subject, tra.last_s) >= (span.subject, span.low) AND tra.first_s <= span.high OFFSET 0) tra
        CROSS JOIN LATERAL @postgis@.ST_DumpPoints(CASE tra.first_s WHEN tra.last_s THEN tra.path
            ELSE @postgis@.ST_LocateBetween(tra.path, span.low - 1, span.high + 1) END) point
        WHERE @postgis@.ST_M(point.geom) BETWEEN span.low AND span.high OFFSET 0
    ), gone AS (
        DELETE FROM pg_temp.dbanon_staged sta USING stored
        WHERE sta.subject = stored.subject AND sta.t = stored.t AND (
            NOT only_same OR dbanon_internal.is_at(sta.x, sta.y, CASE WHEN shaped THEN sta.place END, source_srid, stored.place))
        RETURNING sta.*, CASE WHEN only_same OR dbanon_internal.is_at(sta.x, sta.y, CASE WHEN shaped THEN sta.place END, source_srid, stored.place)
            THEN twin ELSE 'contradicting-fix' END AS why
    )
    INSERT INTO pg_temp.dbanon_rejected SELECT gone.file, gone.line, gone.why, CASE WHEN gone.why <> 'known' THEN (
        SELECT cop.content FROM dbanon_internal.copy_staged(cells, gone.subject, gone.trip, gone.t, gone.x, gone.y, gone.shape) cop) END, gone.t FROM gone;
END
$$;
COMMENT ON FUNCTION dbanon_internal.leave_out_stored IS
'Leaves out staged rows of a subject and time that the dataset has already, or only those that have the same position, too: the same rows added twice
add nothing; twin: the reason of the latter.';

CREATE OR REPLACE FUNCTION dbanon_internal.leave_out_known(dataset dbanon.dataset, source_srid integer, cells jsonb) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dbanon_internal.leave_out_stored(dataset, source_srid, false, 'known', cells, true);
    RETURN (SELECT count(*) FROM pg_temp.dbanon_staged);
EXCEPTION WHEN internal_error THEN
    -- PROJ cannot show one of them: dbanon_internal.make_trajectories leaves that out first.
    RETURN (SELECT count(*) FROM pg_temp.dbanon_staged);
END
$$;
COMMENT ON FUNCTION dbanon_internal.leave_out_known IS 'Leaves out staged fixes that the dataset has, before the others are judged; returns how many are left.';

CREATE OR REPLACE FUNCTION dbanon_internal.insert_lines(
    asked dbanon_internal.loading, dataset dbanon.dataset, source_srid integer, load_id bigint, cut boolean, most bigint DEFAULT 100000,
    OUT trajectories bigint, OUT subjects bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET client_min_messages = error AS $$
DECLARE
    gap_s CONSTANT double precision := coalesce(asked.split_gap_s, 'Infinity');
    day_zone CONSTANT text := dataset.day_zone;
    off_the_map bigint;
BEGIN
    -- Where times of a line do not follow each other, PostGIS names two of them in a notice, before the constraint of the table refuses the
    -- line. The client does not get it; a server's log from level notice on has it, to three hours.
    WITH whole AS NOT MATERIALIZED (
        SELECT sta.subject, sta.trip, CASE WHEN day_zone IS NOT NULL THEN (to_timestamp(sta.t) AT TIME ZONE day_zone)::date END AS day, sta.t, sta.x, sta.y
        FROM pg_temp.dbanon_staged sta
    ), fixes AS NOT MATERIALIZED (
        -- Most loads cut nothing; then rows are read as they are, without two window functions over all of them.
        SELECT who.subject, who.trip, who.day, who.t, who.x, who.y, 0 AS part FROM whole who WHERE NOT cut
        UNION ALL
        -- A part ends where a gap is too long, or after `most` fixes, which bounds the size of a line.
        SELECT spa.subject, spa.trip, spa.day, spa.t, spa.x, spa.y, count(*) FILTER (WHERE spa.gap > gap_s OR spa.nth % most = 0) OVER (
            PARTITION BY spa.subject, spa.trip, spa.day ORDER BY spa.t)
        FROM (SELECT who.*, who.t - lag(who.t) OVER w AS gap, row_number() OVER w - 1 AS nth
              FROM whole who WHERE cut WINDOW w AS (PARTITION BY who.subject, who.trip, who.day ORDER BY who.t)) spa
    ), made AS (
        INSERT INTO dbanon.trajectory (dataset_id, load_id, subject, path)
        SELECT dataset.dataset_id, insert_lines.load_id, lin.subject,
            CASE @postgis@.ST_NPoints(lin.line) WHEN 1 THEN @postgis@.ST_StartPoint(lin.line) ELSE lin.line END
        -- Whole lines are reprojected at once, ten times as fast as single fixes.
        FROM (SELECT fix.subject, fix.trip, fix.day, fix.part, @postgis@.ST_Transform(@postgis@.ST_SetSRID(@postgis@.ST_MakeLine(
                  @postgis@.ST_MakePointM(fix.x, fix.y, fix.t) ORDER BY fix.t), source_srid), dataset.srid) AS line
              FROM fixes fix GROUP BY fix.subject, fix.trip, fix.day, fix.part) lin
        ORDER BY lin.subject, lin.trip, lin.day, lin.part RETURNING subject, path
    )
    SELECT count(*), count(DISTINCT made.subject), count(*) FILTER (WHERE NOT dbanon_internal.is_on_the_map(made.path))
    INTO trajectories, subjects, off_the_map FROM made;
    -- The same as where PROJ refuses: the caller finds the fixes one by one, and makes the lines again.
    IF off_the_map > 0 THEN
        RAISE EXCEPTION 'Every position must lie where SRID % shows it. Some do not.', dataset.srid
            USING ERRCODE = 'internal_error',
                  DETAIL = format('%s one.', dbanon_internal.format_quantity(off_the_map, 'trajectory has', 'trajectories have')),
                  HINT = 'dbanon_internal.make_trajectories finds them, as it does where PROJ itself refuses.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.insert_lines IS
'Stores the staged fixes as trajectories, in the reference system of the dataset. Raises an error if that system shows no place for one, or if two of
a line have the same time.';

CREATE OR REPLACE FUNCTION dbanon_internal.store_staged(
    asked dbanon_internal.loading, dataset dbanon.dataset, source_srid integer, shaped boolean, cut boolean, looks_for_twins boolean, cells jsonb,
    load_id bigint, OUT trajectories bigint, OUT subjects bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Where what is new is looked for, known rows are counted, and go to no quarantine.
    twin CONSTANT text := CASE asked.mode WHEN 'new' THEN 'known' ELSE 'duplicate-fix' END;
BEGIN
    -- First what the dataset has, then what is of a time that was published: whether a row is does not depend on other rows of the load.
    IF asked.mode IN ('append', 'new') THEN
        PERFORM dbanon_internal.leave_out_stored(dataset, source_srid, shaped, twin, cells);
    END IF;
    IF asked.mode = 'new' THEN PERFORM dbanon_internal.leave_out_late(dataset.dataset_id); END IF;
    IF looks_for_twins THEN
        -- The first row of a subject and time stays; later ones repeat it or contradict it, which is reported apart.
        WITH found AS (
            SELECT sta.ctid AS staged, row_number() OVER w AS nth,
                CASE WHEN shaped THEN sta.place OPERATOR(@postgis@.=) first_value(sta.place) OVER w
                    ELSE sta.x = first_value(sta.x) OVER w AND sta.y = first_value(sta.y) OVER w END AS same
            FROM pg_temp.dbanon_staged sta WINDOW w AS (PARTITION BY sta.subject, sta.t ORDER BY sta.file, sta.line)
        ), gone AS (
            DELETE FROM pg_temp.dbanon_staged sta USING found WHERE sta.ctid = found.staged AND found.nth > 1
            RETURNING sta.*, CASE WHEN found.same THEN twin ELSE 'contradicting-fix' END AS why
        )
        INSERT INTO pg_temp.dbanon_rejected SELECT gone.file, gone.line, gone.why, CASE WHEN gone.why <> 'known' THEN (
            SELECT cop.content FROM dbanon_internal.copy_staged(cells, gone.subject, gone.trip, gone.t, gone.x, gone.y, gone.shape) cop) END, gone.t FROM gone;
    END IF;
    IF asked.max_speed_kmh IS NOT NULL THEN
        PERFORM dbanon_internal.mark_too_fast(asked, dataset, source_srid);
        IF asked.drop_outliers THEN
            WITH gone AS (DELETE FROM pg_temp.dbanon_staged sta WHERE sta.reason = 'too-fast' RETURNING sta.*)
            INSERT INTO pg_temp.dbanon_rejected SELECT gone.file, gone.line, gone.reason, cop.content, gone.t
            FROM gone CROSS JOIN LATERAL dbanon_internal.copy_staged(cells, gone.subject, gone.trip, gone.t, gone.x, gone.y, gone.shape) cop;
        END IF;
    END IF;
    IF shaped THEN
        -- Each row is a trajectory of one fix, at the middle of its rectangle.
        WITH made AS (
            INSERT INTO dbanon.trajectory (dataset_id, load_id, subject, path, shape)
            SELECT dataset.dataset_id, store_staged.load_id, sta.subject, dbanon_internal.make_middle(sta.place, sta.t, dataset.srid),
                CASE WHEN sta.shape IS NOT NULL THEN sta.place END
            FROM pg_temp.dbanon_staged sta ORDER BY sta.subject, sta.t RETURNING subject
        )
        SELECT count(*), count(DISTINCT made.subject) INTO trajectories, subjects FROM made;
    ELSE
        SELECT built.trajectories, built.subjects INTO trajectories, subjects
        FROM dbanon_internal.insert_lines(asked, dataset, source_srid, load_id, cut) built;
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.store_staged IS
'Leaves out what is there and twins, and stores the rest. Raises an error if a fix cannot be shown in the reference system, or if there are twins that
were not looked for.';

CREATE OR REPLACE FUNCTION dbanon_internal.leave_out_unplaced(source_srid integer, target integer, cells jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- By thousands first, one by one only where a thousand failed.
    WITH blocks AS MATERIALIZED (
        SELECT sta.file, sta.line / 1000 AS block FROM pg_temp.dbanon_staged sta GROUP BY sta.file, sta.line / 1000
        HAVING dbanon_internal.reproject(@postgis@.ST_SetSRID(@postgis@.ST_Collect(@postgis@.ST_MakePoint(sta.x, sta.y)), source_srid), target) IS NULL
    ), gone AS (
        DELETE FROM pg_temp.dbanon_staged sta USING blocks
        WHERE sta.file = blocks.file AND sta.line / 1000 = blocks.block
            AND dbanon_internal.reproject(@postgis@.ST_SetSRID(@postgis@.ST_MakePoint(sta.x, sta.y), source_srid), target) IS NULL RETURNING sta.*
    )
    INSERT INTO pg_temp.dbanon_rejected SELECT gone.file, gone.line, 'position-out-of-range', cop.content, gone.t
    FROM gone CROSS JOIN LATERAL dbanon_internal.copy_staged(cells, gone.subject, gone.trip, gone.t, gone.x, gone.y, gone.shape) cop;
END
$$;
COMMENT ON FUNCTION dbanon_internal.leave_out_unplaced IS 'Finds the staged fixes that a projection cannot show, and leaves them out.';

CREATE OR REPLACE FUNCTION dbanon_internal.make_trajectories(
    asked dbanon_internal.loading, dataset dbanon.dataset, source_srid integer, shaped boolean, cells jsonb, load_id bigint,
    OUT trajectories bigint, OUT subjects bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1
SET work_mem = '256MB' AS $$
DECLARE
    -- Where gaps cut a path of somebody in parts, or it has more fixes than a line may have (dbanon_internal.insert_lines).
    cut CONSTANT boolean := NOT shaped AND (asked.split_gap_s IS NOT NULL OR EXISTS (
        SELECT FROM pg_temp.dbanon_staged sta GROUP BY sta.subject, sta.trip HAVING count(*) > 100000));
    -- To look for twins takes as long as to make lines, and most loads have none: where all fixes of a time would be in one line, the table
    -- refuses that line.
    looks_for_twins boolean := shaped OR cut OR asked.trip IS NOT NULL OR asked.max_speed_kmh IS NOT NULL;
    is_placed boolean := false;
    refused text;
BEGIN
    -- Shapes are reprojected one by one before the rest, since each keeps its own rectangle.
    IF shaped THEN
        UPDATE pg_temp.dbanon_staged sta SET place = @postgis@.ST_Envelope(dbanon_internal.reproject(
            @postgis@.ST_SetSRID(coalesce(sta.shape, @postgis@.ST_MakePoint(sta.x, sta.y)), source_srid), dataset.srid));
        WITH gone AS (DELETE FROM pg_temp.dbanon_staged sta WHERE sta.place IS NULL RETURNING sta.*)
        INSERT INTO pg_temp.dbanon_rejected SELECT gone.file, gone.line, 'position-out-of-range', cop.content, gone.t
        FROM gone CROSS JOIN LATERAL dbanon_internal.copy_staged(cells, gone.subject, gone.trip, gone.t, gone.x, gone.y, gone.shape) cop;
    END IF;
    LOOP
        BEGIN
            SELECT built.trajectories, built.subjects INTO trajectories, subjects
            FROM dbanon_internal.store_staged(asked, dataset, source_srid, shaped, cut, looks_for_twins, cells, load_id) built;
            EXIT;
        EXCEPTION
            WHEN check_violation THEN
                GET STACKED DIAGNOSTICS refused = CONSTRAINT_NAME;
                IF looks_for_twins OR refused <> 'trajectory_path_check' THEN
                    RAISE;
                END IF;
                looks_for_twins := true;
            WHEN internal_error THEN
                -- PROJ refuses a line for one fix that it cannot show. The load leaves such fixes out, and makes the lines again.
                IF is_placed THEN
                    RAISE;
                END IF;
                is_placed := true;
                PERFORM dbanon_internal.leave_out_unplaced(source_srid, dataset.srid, cells);
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.make_trajectories IS
'Makes trajectories of the staged fixes; twins, and those that the projection cannot show, are left out.';

-- ---- copies

CREATE OR REPLACE FUNCTION dbanon_internal.describe_repeats(dataset_id bigint, newest_before bigint) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp SET work_mem = '256MB' AS $$
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
    SELECT sum(cnt.added)::bigint AS added, coalesce(sum(cnt.added) FILTER (WHERE cnt.added < cnt.total_rows), 0)::bigint AS again,
        coalesce(sum(cnt.added - 1) FILTER (WHERE cnt.added = cnt.total_rows), 0)::bigint AS twins
    INTO counted
    FROM (SELECT count(*) AS total_rows, count(*) FILTER (WHERE lin.is_new) AS added
          FROM (SELECT tra.trajectory_id > newest_before AS is_new, @postgis@.ST_M(tra.path) AS t,
                    @postgis@.Box3D(coalesce(tra.shape, tra.path)) AS b
                FROM dbanon.trajectory tra
                -- Each is of one fix: of the others those of the same time are enough.
                WHERE tra.dataset_id = describe_repeats.dataset_id AND tra.last_s BETWEEN low AND high OFFSET 0) lin
          GROUP BY lin.t, round(@postgis@.ST_XMin(lin.b) * 1000), round(@postgis@.ST_YMin(lin.b) * 1000),
              round(@postgis@.ST_XMax(lin.b) * 1000), round(@postgis@.ST_YMax(lin.b) * 1000)) cnt
    WHERE cnt.added > 0;
    IF counted.again > 0 AND 2 * counted.again >= counted.added THEN
        RAISE EXCEPTION 'Added rows must be new. The dataset has the time and place of % of the %, each of which would be one more person.',
                dbanon_internal.format_count(counted.again), dbanon_internal.format_quantity(counted.added, 'row')
            USING ERRCODE = 'DA012', DETAIL = 'Every row is a separate person here.', HINT = 'Leave out rows that were loaded before.';
    END IF;
    repeats := counted.again + counted.twins;
    RETURN CASE repeats WHEN 0 THEN NULL
        ELSE format('%s the time and place of another. Each row counts as a separate person here. Where it is a copy, people would hide among '
            'copies of themselves: load without copies.', dbanon_internal.format_quantity(repeats, 'row repeats', 'rows repeat')) END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.describe_repeats IS
'Says how many trajectories of a load, each a row that is a separate subject, repeat the time and place of an earlier row of the dataset: a subject
hidden only by its own copy is not hidden. Raises an error if at least half of them repeat an earlier load.';
