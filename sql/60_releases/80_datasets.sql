-- Datasets: what is there, and what is taken out of them again: a load, what is too old, all of one.
--
-- What releases promise stays measured: their groups, and what is kept of the people in them, are in none of these tables.

CREATE OR REPLACE VIEW dbanon.datasets AS
SELECT dat.name, pop.name AS population, size.subjects, size.trajectories, size.fixes, to_timestamp(size.first_s) AS since,
    to_timestamp(size.last_s) AS until,
    dat.srid, dat.grid_m, dat.grid_s, dat.settle_s,
    -- The paths as they are stored, and some 150 bytes a trajectory for the rest of the row and its places in the indexes.
    (SELECT coalesce(sum(150 + pg_column_size(tra.path)), 0)::bigint FROM ONLY dbanon.trajectory tra WHERE tra.dataset_id = dat.dataset_id) AS bytes,
    load.load_id AS last_load, load.loaded_at AS last_loaded_at, load.loaded_by AS last_loaded_by, rel.live AS live_releases, rel.ever AS releases
FROM ONLY dbanon.dataset dat
JOIN ONLY dbanon.population pop ON pop.population_id = dat.population_id
CROSS JOIN LATERAL dbanon_internal.measure_data(dat.dataset_id) size
LEFT JOIN LATERAL (
    SELECT load.load_id, load.loaded_at, load.loaded_by FROM ONLY dbanon.load load
    WHERE load.dataset_id = dat.dataset_id AND load.part_of IS NULL AND load.dropped_at IS NULL ORDER BY load.load_id DESC LIMIT 1) load ON true
CROSS JOIN LATERAL (
    SELECT count(DISTINCT rel.name) FILTER (WHERE rel.withdrawn_at IS NULL) AS live, count(*) AS ever
    FROM ONLY dbanon.release rel JOIN ONLY dbanon.run run ON run.run_id = rel.run_id WHERE run.dataset_id = dat.dataset_id) rel
WHERE dat.dropped_at IS NULL;

-- ---- what goes

CREATE OR REPLACE FUNCTION dbanon_internal.drop_unpublished(dataset_id bigint, since timestamptz) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    WITH dropped AS (
        -- One that waits in the queue has read nothing yet; one that began before may have read later.
        DELETE FROM dbanon.run r
            WHERE r.dataset_id = drop_unpublished.dataset_id
              AND (since IS NULL OR r.todo IS DISTINCT FROM 'compute' AND coalesce(r.finished_at, 'infinity') >= since)
              AND NOT EXISTS (SELECT FROM dbanon.release l WHERE l.run_id = r.run_id) RETURNING 1
    )
    SELECT count(*) FROM dropped
$$;
COMMENT ON FUNCTION dbanon_internal.drop_unpublished IS
'Deletes the runs of a dataset that were never published and may have read what came at a time; all of them where it is null.';

CREATE OR REPLACE FUNCTION dbanon_internal.delete_data(dataset_id bigint, load_id bigint) RETURNS TABLE (what text, rows bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relation text;
BEGIN
    FOREACH relation IN ARRAY dbanon_internal.list_data_tables() LOOP
        EXECUTE format('DELETE FROM dbanon.%I s WHERE s.dataset_id = $1 AND ($2 IS NULL OR s.load_id = $2)', relation)
            USING dataset_id, load_id;
        GET DIAGNOSTICS rows = ROW_COUNT;
        what := replace(regexp_replace(relation, 'y$', 'ie'), '_', '-') || 's';
        RETURN NEXT;
    END LOOP;
    DELETE FROM dbanon.quarantine qua USING dbanon.load load
        WHERE load.load_id = qua.load_id AND load.dataset_id = delete_data.dataset_id
          AND (delete_data.load_id IS NULL OR delete_data.load_id IN (load.load_id, load.part_of));
    GET DIAGNOSTICS rows = ROW_COUNT;
    what := 'quarantined rows';
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION dbanon_internal.delete_data IS
'Deletes what was loaded into a dataset, and what loads could not use: all of it, or where a load is given, what that brought.';

CREATE OR REPLACE FUNCTION dbanon_internal.erase_before(dataset_id bigint, before timestamptz) RETURNS TABLE (what text, rows bigint)
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET work_mem = '256MB' SET jit = off AS $$
    WITH touched AS MATERIALIZED (
        -- One statement, so that all of it sees the rows as they were.
        SELECT tra.trajectory_id, @postgis@.ST_NPoints(tra.path) AS fixes, tra.last_s < extract(epoch FROM before)::double precision AS old
        FROM dbanon.trajectory tra
        WHERE tra.dataset_id = erase_before.dataset_id AND tra.first_s < extract(epoch FROM before)::double precision
    ), run AS (
        DELETE FROM dbanon.run run
            WHERE run.dataset_id = erase_before.dataset_id
              AND NOT EXISTS (SELECT FROM dbanon.release rel WHERE rel.run_id = run.run_id)
              AND (EXISTS (SELECT FROM dbanon.period per WHERE per.run_id = run.run_id AND lower(per.period) < before)
                   OR EXISTS (SELECT FROM dbanon.membership mem JOIN touched ON touched.trajectory_id = mem.trajectory_id
                              WHERE mem.run_id = run.run_id)) RETURNING 1
    ), old AS (
        DELETE FROM dbanon.trajectory tra USING touched WHERE touched.old AND tra.trajectory_id = touched.trajectory_id RETURNING touched.fixes
    ), cut AS (
        -- A line needs two fixes: where one is left, the path becomes a point.
        UPDATE dbanon.trajectory tra
            SET path = CASE WHEN @postgis@.ST_IsEmpty(kept.path) THEN @postgis@.ST_EndPoint(tra.path) ELSE kept.path END
            FROM (SELECT tra.trajectory_id, touched.fixes, @postgis@.ST_FilterByM(
                      tra.path, extract(epoch FROM before)::double precision, 'Infinity'::double precision, true) AS path
                  FROM touched JOIN dbanon.trajectory tra ON tra.trajectory_id = touched.trajectory_id WHERE NOT touched.old OFFSET 0) kept
            WHERE tra.trajectory_id = kept.trajectory_id RETURNING kept.fixes - @postgis@.ST_NPoints(tra.path) AS fixes
    ), request AS (
        DELETE FROM dbanon.request req WHERE req.dataset_id = erase_before.dataset_id AND req.sent_at < before RETURNING 1
    ), quasi_identifier AS (
        DELETE FROM dbanon.quasi_identifier qid WHERE qid.dataset_id = erase_before.dataset_id AND qid.at < before RETURNING 1
    )
    VALUES ('trajectories', (SELECT count(*) FROM old)), ('trajectories cut', (SELECT count(*) FROM cut)),
        ('fixes', (SELECT coalesce(sum(gone.fixes), 0)::bigint FROM (SELECT old.fixes FROM old UNION ALL SELECT cut.fixes FROM cut) gone)),
        ('requests', (SELECT count(*) FROM request)), ('quasi-identifiers', (SELECT count(*) FROM quasi_identifier)),
        ('runs dropped', (SELECT count(*) FROM run))
$$;
COMMENT ON FUNCTION dbanon_internal.erase_before IS
'Deletes what a dataset has from before a time, and the runs with any of it that were never published; trajectories that go on are cut.';

CREATE OR REPLACE FUNCTION dbanon_internal.erase_sources(dataset_id bigint, before timestamptz) RETURNS TABLE (what text, rows bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relation text;
    filled bigint[] := '{}';
    carried bigint[];
    old bigint[];
BEGIN
    -- A row that could not be used may have no time that can be read, and a file may be called after a person. Both are as old as what came
    -- with them: they go with the last row of their load, and at the latest when the load itself was before the time.
    FOREACH relation IN ARRAY dbanon_internal.list_data_tables() LOOP
        EXECUTE format('SELECT array_agg(DISTINCT s.load_id) FROM dbanon.%I s WHERE s.dataset_id = $1', relation) INTO carried USING dataset_id;
        filled := filled || carried;
    END LOOP;
    -- Places have no time, and stay.
    old := ARRAY(SELECT load.load_id FROM dbanon.load load
                 WHERE load.dataset_id = erase_sources.dataset_id
                   AND (NOT coalesce(load.part_of, load.load_id) = ANY (array_remove(filled, NULL))
                        OR (load.loaded_at < before AND load.kind IN ('trajectories', 'requests', 'quasi-identifiers'))));
    DELETE FROM dbanon.quarantine qua WHERE qua.load_id = ANY (old);
    GET DIAGNOSTICS rows = ROW_COUNT;
    what := 'quarantined rows';
    RETURN NEXT;
    UPDATE dbanon.load load SET source = 'forgotten' WHERE load.load_id = ANY (old) AND load.source <> 'forgotten';
    GET DIAGNOSTICS rows = ROW_COUNT;
    what := 'names of sources';
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION dbanon_internal.erase_sources IS
'Deletes the rejected rows, and the names of the sources, of loads of which nothing is left or that were before a time.';

CREATE OR REPLACE FUNCTION dbanon_internal.name_live_releases(
    dataset_id bigint, computed_since timestamptz, shown_before timestamptz, OUT named text, OUT withdraw text)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT n.named, n.withdraw
    FROM dbanon_internal.name_releases(ARRAY(
        SELECT l.release_id FROM dbanon.release l JOIN dbanon.run r ON r.run_id = l.run_id
        WHERE r.dataset_id = name_live_releases.dataset_id AND l.withdrawn_at IS NULL
          AND (computed_since IS NULL OR coalesce(r.finished_at, 'infinity') >= computed_since)
          AND (shown_before IS NULL OR lower(l.span) < shown_before AND NOT EXISTS (
              -- Named when data were last forgotten: with each night another part of the same release is older.
              SELECT FROM dbanon.release o JOIN dbanon.dataset d ON d.dataset_id = name_live_releases.dataset_id
              WHERE (o.release_id = l.release_id OR o.series_id = l.series_id) AND lower(o.span) < d.kept_since)))) n
$$;
COMMENT ON FUNCTION dbanon_internal.name_live_releases IS
'Names the live releases of a dataset, and what to type to withdraw them: where a time is given, those computed since it, or with rows from
before it that had none from before the time at which data were forgotten last.';

-- ---- what people call

CREATE OR REPLACE FUNCTION dbanon.drop_load(load_id bigint) RETURNS TABLE (what text, rows bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first dbanon.load;
    about text;
    held bigint;
    live record;
    counts json;
BEGIN
    -- What one call made of several sources is one set of rows, under the number of the first.
    SELECT head.* INTO first FROM dbanon.load load JOIN dbanon.load head ON head.load_id = coalesce(load.part_of, load.load_id)
        WHERE load.load_id = drop_load.load_id AND load.dropped_at IS NULL;
    IF first.load_id IS NULL THEN
        RAISE EXCEPTION 'The load must exist, and must not have been taken back. There is no load %.', coalesce(drop_load.load_id::text, 'NULL')
            USING ERRCODE = 'DA001', DETAIL = 'Looked in dbanon.load.',
                  HINT = 'List the loads: SELECT load_id, kind, source, loaded_at FROM dbanon.load WHERE dropped_at IS NULL.';
    END IF;
    SELECT dat.name INTO STRICT about FROM dbanon.dataset dat WHERE dat.dataset_id = first.dataset_id;
    held := dbanon_internal.hold_dataset(about);
    live := dbanon_internal.name_live_releases(held, first.loaded_at, NULL);
    IF live.named IS NOT NULL THEN
        RAISE EXCEPTION 'A load must stay while a release of a run that came after it is live. After load % came %.', first.load_id, live.named
            USING ERRCODE = 'DA007', DETAIL = 'It may show rows of the load.', HINT = format('Withdraw it first: %s.', live.withdraw);
    END IF;
    SELECT json_object_agg(gone.what, gone.rows) INTO counts
        FROM (SELECT del.what, del.rows FROM dbanon_internal.delete_data(held, first.load_id) del
              UNION ALL SELECT 'runs dropped', dbanon_internal.drop_unpublished(held, first.loaded_at)) gone;
    UPDATE dbanon.load load SET dropped_at = now() WHERE first.load_id IN (load.load_id, load.part_of);
    INSERT INTO dbanon.audit (action, dataset, detail) VALUES ('drop_load', about, counts::jsonb || jsonb_build_object('load_id', first.load_id));
    PERFORM dbanon_internal.forget_statistics();
    RETURN QUERY SELECT pair.key, pair.value::bigint FROM json_each_text(counts) pair;
END
$$;
COMMENT ON FUNCTION dbanon.drop_load IS
'Takes a load back. It deletes the rows that the load brought, the rows that it could not use, and the runs that were never published and may have
read
them. Rows that a load replaced do not come back. Load that again.
Arguments:
- load_id: the key of the load in dbanon.load, which the load returned. Files that were loaded together are taken back together.
Returns: one row a kind of thing.
- what: the kind of thing.
- rows: how many rows.
Raises: DA001 if there is no such load. DA007 while a release of a run that was computed after it is live. DA013 while a run of the dataset is being
worked on. DA015 in a transaction that is not read committed.
Example: SELECT * FROM dbanon.drop_load(1).';

CREATE OR REPLACE FUNCTION dbanon.forget_before(dataset text, before timestamptz) RETURNS TABLE (what text, rows bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held bigint;
    counts json;
    live record;
BEGIN
    IF before IS NULL OR NOT isfinite(before) OR before > now() THEN
        RAISE EXCEPTION 'The time before which data are forgotten must be one in the past. Got %.', coalesce(before::text, 'NULL')
            USING ERRCODE = 'DA011', DETAIL = format('It is %s.', now()), HINT = 'Give one such as now() - interval ''30 days''.';
    END IF;
    held := dbanon_internal.hold_dataset(dataset);
    SELECT json_object_agg(gone.what, gone.rows) INTO counts
        FROM (SELECT era.what, era.rows FROM dbanon_internal.erase_before(held, before) era
              UNION ALL SELECT era.what, era.rows FROM dbanon_internal.erase_sources(held, before) era) gone;
    live := dbanon_internal.name_live_releases(held, NULL, before);
    IF live.named IS NOT NULL THEN
        RAISE NOTICE 'Live releases show something from before that time still: %. To take it from their readers, withdraw them: %.',
            live.named, live.withdraw;
    END IF;
    UPDATE dbanon.dataset dat SET kept_since = greatest(dat.kept_since, before) WHERE dat.dataset_id = held;
    INSERT INTO dbanon.audit (action, dataset, detail)
        VALUES ('forget_before', forget_before.dataset, counts::jsonb || jsonb_build_object('before', before));
    PERFORM dbanon_internal.forget_statistics();
    RETURN QUERY SELECT pair.key, pair.value::bigint FROM json_each_text(counts) pair;
END
$$;
COMMENT ON FUNCTION dbanon.forget_before IS
'Deletes the data of a dataset from before a time. These are trajectories that ended before it, the earlier fixes of the others, requests,
quasi-identifiers, and the runs with any of these that were never published. It also deletes rejected rows and names of sources, once nothing of
their load is left or the load itself is older than the time. Later loads leave out older data, too. Releases stay, together with the facts that later releases are
compared with. A notice names live releases from before the time, once. A returning person is recognised by the hash of the name.
Arguments:
- dataset: name of the dataset.
- before: the time, which must be in the past.
Returns: one row a kind of thing.
- what: the kind of thing.
- rows: how many rows.
Raises: DA001 if there is no such dataset. DA011 for a time that is not in the past. DA013 while a run of the dataset is being worked on. DA015 in a
transaction that is not read committed.
Example: SELECT * FROM dbanon.forget_before(''taxi'', now() - interval ''30 days'').';

CREATE OR REPLACE FUNCTION dbanon.drop_dataset(name text) RETURNS TABLE (what text, rows bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held CONSTANT bigint := dbanon_internal.hold_dataset(name);
    live CONSTANT record := dbanon_internal.name_live_releases(held, NULL, NULL);
    counts json;
BEGIN
    IF live.named IS NOT NULL THEN
        RAISE EXCEPTION 'A dataset must have no live release to be dropped. ''%'' has %.', drop_dataset.name, live.named
            USING ERRCODE = 'DA007', DETAIL = 'Nothing was dropped.', HINT = format('Withdraw it first: %s.', live.withdraw);
    END IF;
    SELECT json_object_agg(gone.what, gone.rows) INTO counts
        FROM (SELECT del.what, del.rows FROM dbanon_internal.delete_data(held, NULL) del
              UNION ALL SELECT 'runs dropped', dbanon_internal.drop_unpublished(held, NULL)) gone;
    DELETE FROM dbanon.load load WHERE load.dataset_id = held;
    INSERT INTO dbanon.audit (action, dataset, detail) VALUES ('drop', drop_dataset.name, counts::jsonb);
    IF EXISTS (SELECT FROM dbanon.release rel JOIN dbanon.run run ON run.run_id = rel.run_id WHERE run.dataset_id = held) THEN
        -- What later releases are measured against refers to its row, and to those of its runs; their cloaks and members are needed no more.
        UPDATE dbanon.dataset dat SET dropped_at = now(), name = format('%s (dropped %s)', left(dat.name, 170), held) WHERE dat.dataset_id = held;
        PERFORM dbanon_internal.delete_rows(run.run_id) FROM dbanon.run run WHERE run.dataset_id = held;
    ELSE
        DELETE FROM dbanon.fix_code code WHERE code.dataset_id = held;
        DELETE FROM dbanon.dataset dat WHERE dat.dataset_id = held;
    END IF;
    PERFORM dbanon_internal.forget_statistics();
    RETURN QUERY SELECT pair.key, pair.value::bigint FROM json_each_text(counts) pair;
END
$$;
COMMENT ON FUNCTION dbanon.drop_dataset IS
'Deletes a dataset: all that was loaded into it, its loads, its runs that were never published, and the rows of its other runs. Its name is free then.
If it was ever published, its releases stay on record under another name of it, with their runs and groups. Later releases of the same people are
compared with them.
Arguments:
- name: name of the dataset.
Returns: one row a kind of thing.
- what: the kind of thing.
- rows: how many rows.
Raises: DA001 if there is no such dataset. DA007 while a release of it is live. DA013 while a run of it is being worked on. DA015 in a transaction
that is not read committed.
Example: SELECT * FROM dbanon.drop_dataset(''taxi'').';
