-- Runs and samples of datasets that a sweep makes. Each is tied to the session that asked for it, which holds an advisory
-- lock as a worker does: after the session has ended, however it did, the next process that looks deletes them.

CREATE OR REPLACE FUNCTION dbanon_internal.find_holder(lock_key bigint) RETURNS dbanon.session
LANGUAGE sql STABLE PARALLEL RESTRICTED STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT ROW(find_holder.lock_key, a.pid, a.usesysid, a.backend_start)::dbanon.session
    FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
      AND (l.classid::bigint << 32) | l.objid::bigint = find_holder.lock_key
$$;
COMMENT ON FUNCTION dbanon_internal.find_holder IS
'The session that holds an advisory lock, without its start where the caller may not see that; NULL where none does.';

CREATE OR REPLACE FUNCTION dbanon_internal.tie_run(run_id bigint, lock_key bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    tied CONSTANT dbanon.session := dbanon_internal.find_holder(tie_run.lock_key);
BEGIN
    UPDATE ONLY dbanon.run r SET tied_to = tied
        WHERE r.run_id = tie_run.run_id AND r.created_by = session_user AND r.todo = 'compute' AND r.status = 'queued' AND tied.pid IS NOT NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'A run of a sweep must wait in the queue, and the session of the sweep must be open. Run % was not tied to one.', tie_run.run_id
            USING ERRCODE = 'DA013', DETAIL = 'The session of the sweep has ended, or the run belongs to another login.', HINT = 'Begin the sweep again.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.tie_run IS
'Lets a run that its own login has just submitted go when a session ends. Raises an error if the run does not wait in the queue, or if the session has
ended.';

CREATE OR REPLACE FUNCTION dbanon_internal.sample_people(dataset text, people integer, lock_key bigint) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET work_mem = '256MB'
SET jit = off AS $$
DECLARE
    about dbanon.dataset := dbanon_internal.demand_dataset(dataset);
    key CONSTANT bytea := dbanon_internal.find_dataset_key(about.dataset_id);
    tied CONSTANT dbanon.session := dbanon_internal.find_holder(sample_people.lock_key);
    subjects text[];
    number bigint;
    named text;
BEGIN
    -- No load commits during the copy.
    SELECT dat.* INTO STRICT about FROM ONLY dbanon.dataset dat WHERE dat.dataset_id = about.dataset_id FOR SHARE;
    subjects := ARRAY(SELECT DISTINCT tra.subject FROM ONLY dbanon.trajectory tra WHERE tra.dataset_id = about.dataset_id);
    IF about.sample_of IS NOT NULL OR people IS NULL OR people < 2 OR people >= cardinality(subjects) THEN
        RAISE EXCEPTION 'A sample must be of at least 2 and fewer people than a whole dataset has. Got %, of %.', coalesce(people::text, 'NULL'),
                cardinality(subjects)
            USING ERRCODE = 'DA011', DETAIL = 'A sweep over all people needs no sample.', HINT = 'Leave the sample out, or take fewer.';
    ELSIF tied.pid IS NULL THEN
        RAISE EXCEPTION 'A sample must be tied to a session that is open. That one has ended.'
            USING ERRCODE = 'DA013', DETAIL = 'Nothing was copied.', HINT = 'Begin the sweep again.';
    END IF;
    -- A keyed hash draws them at random, and draws the same people again for a sweep that is resumed.
    subjects := ARRAY(SELECT ele FROM unnest(subjects) ele ORDER BY sha256(key || convert_to(ele, 'UTF8')) LIMIT people);
    INSERT INTO dbanon.dataset (name, srid, grid_m, grid_s, day_zone, population_id, settle_s, own_subjects, kept_since, sample_of, tied_to)
        VALUES (format('%s (%s drawn for sweep %s)', left(about.name, 120), dbanon_internal.format_quantity(people, 'person', 'people'), left(gen_random_uuid()::text, 8)),
            about.srid, about.grid_m, about.grid_s,
                about.day_zone, about.population_id, about.settle_s, about.own_subjects, about.kept_since, about.dataset_id, tied)
        RETURNING dataset_id, name INTO number, named;
    INSERT INTO dbanon.trajectory (dataset_id, subject, path, shape)
        SELECT number, tra.subject, tra.path, tra.shape FROM ONLY dbanon.trajectory tra
        WHERE tra.dataset_id = about.dataset_id AND tra.subject = ANY (subjects) ORDER BY tra.trajectory_id;
    INSERT INTO dbanon.request (dataset_id, subject, sent_at, content)
        SELECT number, req.subject, req.sent_at, req.content FROM ONLY dbanon.request req
        WHERE req.dataset_id = about.dataset_id AND req.subject = ANY (subjects) ORDER BY req.request_id;
    INSERT INTO dbanon.quasi_identifier (dataset_id, subject, at, set_name)
        SELECT number, qid.subject, qid.at, qid.set_name FROM ONLY dbanon.quasi_identifier qid
        WHERE qid.dataset_id = about.dataset_id AND qid.subject = ANY (subjects) ORDER BY qid.quasi_identifier_id;
    -- All places are copied: they belong to no person.
    INSERT INTO dbanon.site (dataset_id, name, geom)
        SELECT number, site.name, site.geom FROM ONLY dbanon.site site WHERE site.dataset_id = about.dataset_id ORDER BY site.site_id;
    INSERT INTO dbanon.poi (dataset_id, category, geom)
        SELECT number, poi.category, poi.geom FROM ONLY dbanon.poi poi WHERE poi.dataset_id = about.dataset_id ORDER BY poi.poi_id;
    INSERT INTO dbanon.cell (dataset_id, name, geom)
        SELECT number, cel.name, cel.geom FROM ONLY dbanon.cell cel WHERE cel.dataset_id = about.dataset_id ORDER BY cel.cell_id;
    RETURN named;
END
$$;
COMMENT ON FUNCTION dbanon_internal.sample_people IS
'Copies so many people of a dataset, drawn at random, and all places into another dataset, which is never published and goes with the session; returns
its name. Raises an error if the sample has fewer than 2 people or as many as the dataset, or if the session has ended.';

CREATE OR REPLACE FUNCTION dbanon_internal.drop_untied() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ended bigint[] := ARRAY(SELECT dat.dataset_id FROM dbanon.dataset dat
                            WHERE dat.sample_of IS NOT NULL AND NOT dbanon_internal.is_held(dat.tied_to));
    runs bigint[] := ARRAY(
        SELECT run.run_id FROM dbanon.run run
        WHERE ((run.tied_to).lock_key IS NOT NULL AND NOT dbanon_internal.is_held(run.tied_to) OR run.dataset_id = ANY (ended))
            AND NOT EXISTS (SELECT FROM dbanon.release rel WHERE rel.run_id = run.run_id));
BEGIN
    IF runs <> '{}' THEN
        -- A worker's run is cancelled, and deleted when a process looks again.
        UPDATE dbanon.run run SET cancel_requested_at = clock_timestamp(), cancel_requested_by = run.created_by
            WHERE run.cancel_requested_at IS NULL AND run.run_id IN (
                SELECT run.run_id FROM dbanon.run run WHERE run.run_id = ANY (runs) AND run.worker IS NOT NULL FOR UPDATE SKIP LOCKED);
        DELETE FROM dbanon.run run WHERE run.run_id IN (
            SELECT run.run_id FROM dbanon.run run WHERE run.run_id = ANY (runs) AND run.worker IS NULL FOR UPDATE SKIP LOCKED);
    END IF;
    IF ended <> '{}' THEN
        DELETE FROM dbanon.dataset dat WHERE dat.dataset_id IN (
            SELECT dat.dataset_id FROM dbanon.dataset dat
            WHERE dat.dataset_id = ANY (ended) AND NOT EXISTS (SELECT FROM dbanon.run run WHERE run.dataset_id = dat.dataset_id)
            FOR UPDATE SKIP LOCKED);
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.drop_untied IS 'Deletes the runs and samples of sweeps whose session has ended, but no run that was published meanwhile.';
