-- Whose turn it is to load into a dataset, what lies far outside of it, and the record that a load leaves.

CREATE OR REPLACE FUNCTION dbanon_internal.lock_dataset(dataset text) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_advisory_xact_lock(hashtextextended('dbanon.load ' || dataset, 0))
$$;
COMMENT ON FUNCTION dbanon_internal.lock_dataset IS 'Waits for other loads into a dataset of this name, and holds it until the transaction ends.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_dataset(dataset text) RETURNS dbanon.dataset
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_row dbanon.dataset;
BEGIN
    SELECT dat.* INTO found_row FROM dbanon.dataset dat WHERE dat.name = demand_dataset.dataset AND dat.dropped_at IS NULL;
    IF FOUND THEN RETURN found_row; END IF;
    RAISE EXCEPTION 'The dataset must exist. There is none named %.', coalesce(dbanon_internal.quote_text(dataset), 'NULL')
        USING ERRCODE = 'DA001', DETAIL = format('There %s.', (
                  SELECT CASE count(*) WHEN 1 THEN 'is ' ELSE 'are ' END || dbanon_internal.format_quantity(count(*), 'dataset')
                  FROM dbanon.dataset dat WHERE dat.dropped_at IS NULL)),
              HINT = coalesce(dbanon_internal.choose_one(ARRAY(SELECT dat.name FROM dbanon.dataset dat WHERE dat.dropped_at IS NULL)),
                              'Load one with SELECT * FROM dbanon.import_trajectories(...).');
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_dataset IS 'Looks up a dataset.';

-- ---- where its trajectories are

CREATE OR REPLACE FUNCTION dbanon_internal.find_middle_span(places double precision[], narrowest double precision, OUT low double precision,
    OUT high double precision)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n integer := cardinality(places);
    -- 96 percent of many places, fewer of few, so that a single wild one is no part of the middle.
    cut integer := trunc(least(0.3::float8, 0.02::float8 + 1 / n::float8) * n);
    ordered double precision[] := ARRAY(SELECT u.place FROM unnest(places) u (place) ORDER BY u.place);
    margin double precision := greatest(3 * (ordered[n - cut] - ordered[cut + 1]), narrowest);
BEGIN
    low := ordered[cut + 1] - margin;
    high := ordered[n - cut] + margin;
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_middle_span IS
'Finds what does not lie far outside the rest on one axis: the middle 96 percent of the places and three times its extent around
them.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_trajectory_bounds(
    dataset_id bigint, OUT west double precision, OUT east double precision, OUT south double precision, OUT north double precision)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    most CONSTANT double precision := 100000;
    trajectories bigint;
    xs double precision[];
    ys double precision[];
BEGIN
    -- A sample of at most 100,000 trajectories decides, the same one each time.
    SELECT count(*) INTO trajectories FROM dbanon.trajectory tra WHERE tra.dataset_id = find_trajectory_bounds.dataset_id;
    WITH box AS (
        SELECT @postgis@.Box3D(coalesce(tra.shape, tra.path)) AS b
        FROM dbanon.trajectory tra TABLESAMPLE BERNOULLI (least(100, 100 * most / greatest(trajectories, 1))) REPEATABLE (1)
        WHERE tra.dataset_id = find_trajectory_bounds.dataset_id
    ), corner (x, y) AS (
        SELECT @postgis@.ST_XMin(b), @postgis@.ST_YMin(b) FROM box
        UNION ALL SELECT @postgis@.ST_XMax(b), @postgis@.ST_YMax(b) FROM box
    ), place AS (
        -- Places of 100 m are counted, not trajectories: many may begin at one.
        SELECT DISTINCT round(x / 100) * 100 AS x, round(y / 100) * 100 AS y FROM corner
    )
    SELECT array_agg(x), array_agg(y) INTO xs, ys FROM place;
    -- A dataset without trajectories has no bounds: nothing lies outside.
    west := '-Infinity';
    east := 'Infinity';
    south := '-Infinity';
    north := 'Infinity';
    IF xs IS NOT NULL THEN
        SELECT mid.low, mid.high INTO west, east FROM dbanon_internal.find_middle_span(xs, 1000) mid;
        SELECT mid.low, mid.high INTO south, north FROM dbanon_internal.find_middle_span(ys, 1000) mid;
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_trajectory_bounds IS 'Finds what does not lie far outside where the trajectories of a dataset are.';

-- ---- records
--
-- A load is begun before its rows are written, which carry its number, and counted after that. Both functions run with the rights of their
-- owner, since no login writes dbanon.load: the record says what is stored, and not what a login claims.

CREATE OR REPLACE FUNCTION dbanon_internal.find_loaded_table(kind text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE kind WHEN 'trajectories' THEN 'trajectory' WHEN 'requests' THEN 'request' WHEN 'quasi-identifiers' THEN 'quasi_identifier'
        WHEN 'sites' THEN 'site' WHEN 'pois' THEN 'poi' WHEN 'cells' THEN 'cell' WHEN 'stations' THEN 'cell' END
$$;
COMMENT ON FUNCTION dbanon_internal.find_loaded_table IS 'The table that loads of a kind are stored in; NULL for what is no kind.';

CREATE OR REPLACE FUNCTION dbanon_internal.begin_record(
    dataset_id bigint, kind text, sources text[], units_per_s double precision DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    source text;
    latest bigint;
    first_load_id bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM ONLY dbanon.dataset dat WHERE dat.dataset_id = begin_record.dataset_id AND dat.dropped_at IS NULL) THEN
        RAISE EXCEPTION 'The dataset to load into must exist. There is none of number %.', coalesce(dataset_id::text, 'NULL')
            USING ERRCODE = 'DA001', DETAIL = 'Looked in dbanon.dataset.', HINT = 'List the datasets: SELECT * FROM dbanon.datasets.';
    ELSIF dbanon_internal.find_loaded_table(kind) IS NULL OR coalesce(cardinality(sources), 0) = 0
        OR EXISTS (SELECT FROM unnest(sources) ele (name) WHERE ele.name IS NULL) OR NOT units_per_s > 0 THEN
        RAISE EXCEPTION 'A load must have a kind and the names of its sources, and units above 0. Got another kind, a source without a name, or fewer units.'
            USING ERRCODE = 'DA011', DETAIL = 'Kinds are trajectories, requests, quasi-identifiers, sites, pois, cells and stations.',
                  HINT = 'Load with a function such as dbanon.import_trajectories.';
    END IF;
    FOR source IN SELECT ele.name FROM unnest(sources) WITH ORDINALITY ele (name, nth) ORDER BY ele.nth LOOP
        INSERT INTO dbanon.load (part_of, dataset_id, kind, source, rows_read, rows_kept, units_per_s)
            VALUES (first_load_id, begin_record.dataset_id, begin_record.kind, left(source, 1000), 0, 0, begin_record.units_per_s) RETURNING load_id INTO latest;
        first_load_id := coalesce(first_load_id, latest);
    END LOOP;
    RETURN first_load_id;
END
$$;
COMMENT ON FUNCTION dbanon_internal.begin_record IS
'Writes a row of dbanon.load for each source of a load, without counts and with at most 1,000 characters of its name, and returns the number of the
first, which rows of all of them carry. Raises an error if there is no such dataset or kind, if a source has no name, or if the units are not above
0.';

CREATE OR REPLACE FUNCTION dbanon_internal.count_record(
    first_load_id bigint, counted bigint[], without jsonb DEFAULT NULL, judged bigint[] DEFAULT '{}', newest timestamptz DEFAULT NULL)
RETURNS TABLE (load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb, left_out jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first dbanon.load;
    relation text;
    stored numeric;
    kept numeric := 0;
BEGIN
    -- Of this transaction, whose time the record has, and not counted before.
    SELECT load.* INTO first FROM ONLY dbanon.load load
        WHERE load.load_id = first_load_id AND load.part_of IS NULL AND load.rows_read = 0 AND load.loaded_at = now() AND load.loaded_by = session_user;
    IF first.load_id IS NULL THEN
        RAISE EXCEPTION 'The load to count must be one that this transaction began. Load % is not.', coalesce(first_load_id::text, 'NULL')
            USING ERRCODE = 'DA001', DETAIL = 'A load is counted once, when its rows are stored.', HINT = 'Load again.';
    END IF;
    relation := dbanon_internal.find_loaded_table(first.kind);
    EXECUTE format('SELECT coalesce(sum(%s), 0) FROM ONLY dbanon.%I t WHERE t.dataset_id = $1 AND t.load_id = $2',
                   CASE relation WHEN 'trajectory' THEN '@postgis@.ST_NPoints(t.path)' ELSE '1' END, relation)
        INTO stored USING first.dataset_id, first_load_id;
    FOR load_id, rows_read, left_out IN
        SELECT nth.load_id, counted[nth.place], coalesce(without -> (nth.place - 1)::integer, '{}')
        FROM (SELECT load.load_id, row_number() OVER (ORDER BY load.load_id) AS place FROM ONLY dbanon.load load
              WHERE first_load_id IN (load.load_id, load.part_of)) nth ORDER BY nth.place
    LOOP
        SELECT coalesce(jsonb_object_agg(tally.reason, tally.n), '{}'),
            count_record.rows_read - coalesce(sum(tally.n), 0) - dbanon_internal.sum_counts(count_record.left_out) INTO quarantined, rows_kept
            FROM (SELECT qua.reason, count(*) AS n FROM ONLY dbanon.quarantine qua WHERE qua.load_id = count_record.load_id
                  GROUP BY qua.reason) tally;
        kept := CASE WHEN rows_kept >= 0 THEN kept + rows_kept END;
        EXIT WHEN kept IS NULL;
        UPDATE ONLY dbanon.load load SET rows_read = count_record.rows_read, rows_kept = count_record.rows_kept,
                quarantined = count_record.quarantined, left_out = count_record.left_out
            WHERE load.load_id = count_record.load_id;
        RETURN NEXT;
    END LOOP;
    -- Which of several sources a stored row is from, no row says: their sum is what is stored.
    IF kept IS DISTINCT FROM stored THEN
        RAISE EXCEPTION 'Each row of a load must be stored or in quarantine. % are stored and % are said to be.', stored, coalesce(kept::text, 'none')
            USING ERRCODE = 'DA012', DETAIL = format('Load %s is one of %s.', first_load_id, first.kind), HINT = 'Load again.';
    END IF;
    IF kept = 0 AND without IS NULL THEN  -- generated data may be of no requests
        DELETE FROM ONLY dbanon.load load WHERE load.load_id = first_load_id
            AND NOT EXISTS (SELECT FROM ONLY dbanon.quarantine qua WHERE qua.load_id = first_load_id);
    END IF;
    UPDATE ONLY dbanon.load load SET newest = least(count_record.newest, now()) WHERE load.load_id = first_load_id AND count_record.newest IS NOT NULL;
    IF judged <> '{}' THEN
        -- What was judged again is in this load's quarantine, if it is wrong still.
        WITH again AS (
            DELETE FROM ONLY dbanon.quarantine qua USING ONLY dbanon.load older
            WHERE qua.quarantine_id = ANY (judged) AND qua.load_id = older.load_id AND older.load_id < first_load_id
                AND older.dataset_id = first.dataset_id AND older.kind = first.kind
                AND older.source IN (SELECT load.source FROM ONLY dbanon.load load WHERE first_load_id IN (load.load_id, load.part_of))
            RETURNING qua.load_id, qua.reason
        ), counts AS (
            SELECT tally.load_id, jsonb_object_agg(tally.reason, tally.n) AS by_reason, sum(tally.n) AS rows
            FROM (SELECT again.load_id, again.reason, count(*) AS n FROM again GROUP BY again.load_id, again.reason) tally GROUP BY tally.load_id
        )
        UPDATE ONLY dbanon.load load
            SET quarantined = (SELECT coalesce(jsonb_object_agg(
                                   pair.key, pair.value::bigint - coalesce((counts.by_reason ->> pair.key)::bigint, 0)), '{}')
                               FROM jsonb_each_text(load.quarantined) pair
                               WHERE pair.value::bigint > coalesce((counts.by_reason ->> pair.key)::bigint, 0)),
                left_out = load.left_out || jsonb_build_object('read-again', coalesce((load.left_out ->> 'read-again')::bigint, 0) + counts.rows)
            FROM counts WHERE load.load_id = counts.load_id;
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.count_record IS
'Counts what a load stored and left out into its rows of dbanon.load (without: of each source the counts by reason of what is in no quarantine),
and refuses it unless that is all the rows its sources are said to have; one of nothing leaves no record where without is NULL; the
quarantined rows of earlier loads that it judged again leave their quarantines. newest: the newest time stored that an honest clock said.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_losses(first_load_id bigint) RETURNS SETOF text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    -- Of several sources, the one that lost the greatest share.
    SELECT format('%s of %s became %s. Usual causes: %s. To see some: SELECT line, content FROM dbanon.quarantine WHERE load_id = %s AND reason = %L LIMIT 10',
                  dbanon_internal.format_count(lost.n), dbanon_internal.format_quantity(lost.rows_read, 'row'), lost.reason,
                  coalesce(cau.cause, 'the source was loaded before, or has rows twice'), lost.load_id, lost.reason)
    FROM (
        SELECT DISTINCT ON (pair.key) load.load_id, load.rows_read, pair.key AS reason, pair.value::bigint AS n
        FROM dbanon.load load CROSS JOIN jsonb_each_text(load.quarantined) pair
        WHERE first_load_id IN (load.load_id, load.part_of) AND 20 * pair.value::bigint > load.rows_read
        ORDER BY pair.key, pair.value::numeric / load.rows_read DESC, load.load_id) lost
    LEFT JOIN (VALUES
        ('missing-subject', 'the column of people is another, or the source does not know them'), ('non-finite-position', 'devices had no reception'),
        ('subject-too-long', 'the column of people is another'), ('control-characters', 'the file is in another encoding, or cells hold line breaks'),
        ('missing-category', 'the column of categories is another'), ('too-fast', 'several people have one name, or the limit is in another unit'),
        ('unparsable-time', 'the column of times is another, or they are written in another way than ISO 8601'),
        ('non-finite-time', 'an open end is written as infinity'), ('outside-bbox', 'the box is in other units, or of another area'),
        ('time-out-of-range', 'some numbers are in another unit, such as milliseconds among seconds'),
        ('future-time', 'clocks are fast, or the zone is another'), ('far-time', 'clocks jumped, or the source has several periods'),
        ('other-reference-system', 'the source was put together of several. Reproject its geometries to one in a view, with ST_Transform'),
        ('missing-position', 'devices had no reception, or the columns of positions are others'), ('swapped-axes', 'some rows have latitude first'),
        ('unparsable-position', 'decimal commas, degrees with minutes, or a form of geometries that is not read here'),
        ('position-out-of-range', 'the reference system is another, or 91 and 181 stand for an unknown place'),
        ('far-position', 'devices without reception report 0, or the source has several areas'), ('not-a-polygon', 'the column of shapes is another'),
        ('contradicting-fix', 'several people have one name, or times lost their digits or seconds'),
        ('empty-request', 'the columns of requests are others'), ('duplicate-station', 'several antennas stand at one place'),
        ('invalid-polygon', 'polygons cross themselves. Repair them in a view, with ST_MakeValid'), ('outside-area', 'the area is of another place')
    ) cau (reason, cause) USING (reason)
    ORDER BY lost.n DESC, lost.reason
$$;
COMMENT ON FUNCTION dbanon_internal.describe_losses IS
'Words for which reasons more than 5 percent of the rows of a source are in quarantine, with usual causes and the query that shows such rows.';

CREATE OR REPLACE FUNCTION dbanon_internal.write_load(first_load_id bigint, counted bigint[], newest timestamptz DEFAULT NULL)
RETURNS TABLE (load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb, left_out jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    uncopied CONSTANT text[] := dbanon_internal.list_counted_reasons();
BEGIN
    INSERT INTO dbanon.quarantine (load_id, line, reason, content, at)
        SELECT load.load_id, rej.line, rej.reason, rej.content, CASE WHEN dbanon_internal.is_time(rej.t) THEN to_timestamp(rej.t) END
        FROM (SELECT load.load_id, row_number() OVER (ORDER BY load.load_id) - 1 AS file FROM dbanon.load load
              WHERE first_load_id IN (load.load_id, load.part_of)) load
        JOIN pg_temp.dbanon_rejected rej ON rej.file = load.file AND rej.reason <> ALL (uncopied) ORDER BY load.file, rej.line;
    RETURN QUERY SELECT * FROM dbanon_internal.count_record(first_load_id, counted, (
        SELECT jsonb_agg(coalesce((SELECT jsonb_object_agg(tally.reason, tally.n)
                                   FROM (SELECT rej.reason, count(*) AS n FROM pg_temp.dbanon_rejected rej
                                         WHERE rej.file = src.file AND rej.reason = ANY (uncopied)
                                         GROUP BY rej.reason) tally), '{}') ORDER BY src.file)
        FROM generate_series(0, cardinality(counted) - 1) src (file)), ARRAY(SELECT DISTINCT bef.quarantine_id FROM pg_temp.dbanon_before bef), newest);
    PERFORM dbanon_internal.raise_notice(note.notice) FROM dbanon_internal.describe_losses(first_load_id) note (notice);
END
$$;
COMMENT ON FUNCTION dbanon_internal.write_load IS
'Writes to dbanon.quarantine what could not be used of a load''s sources, counts the load, and says which reasons took many rows.';
