-- The queue of runs: who submits, who takes, who has gone away. A worker holds an advisory lock on what it works on, on
-- a separate connection, and registers that session: what has a worker whose session does not hold its lock is dead.

CREATE OR REPLACE FUNCTION dbanon_internal.hold_lock() RETURNS dbanon.session
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held dbanon.session;
BEGIN
    -- A new key each time, so that no other session can have taken it before.
    SELECT ('x' || encode(substr(uuid_send(gen_random_uuid()), 1, 8), 'hex'))::bit(64)::bigint, a.pid, a.usesysid, a.backend_start
        INTO held FROM pg_stat_activity a WHERE a.pid = pg_backend_pid();
    PERFORM pg_advisory_lock(held.lock_key);
    RETURN held;
END
$$;
COMMENT ON FUNCTION dbanon_internal.hold_lock IS 'Takes an advisory lock with a key drawn at random, which the session holds until it releases it or ends.';

CREATE OR REPLACE FUNCTION dbanon_internal.is_held(held_by dbanon.session) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL RESTRICTED CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- Within a transaction the server shows the sessions as they were when it was first asked.
    SELECT pg_stat_clear_snapshot();
    -- Any login can see the keys of locks, from other databases of the server at least, and take them; and a number of a
    -- process that has ended is given to another one day.
    SELECT pg_is_in_recovery() OR EXISTS (
        SELECT FROM pg_locks loc JOIN pg_stat_activity act ON act.pid = loc.pid
        WHERE loc.locktype = 'advisory' AND loc.granted AND loc.objsubid = 1
          AND loc.database = (SELECT pgd.oid FROM pg_database pgd WHERE pgd.datname = current_database())
          AND (loc.classid::bigint << 32) | loc.objid::bigint = (is_held.held_by).lock_key
          AND loc.pid = (is_held.held_by).pid AND act.usesysid = (is_held.held_by).login
          AND (act.backend_start = (is_held.held_by).started_at) IS NOT FALSE)
$$;
COMMENT ON FUNCTION dbanon_internal.is_held IS
'Whether a session is there and holds its advisory lock: same process number, login and, where the caller may see it,
start; the same lock held by others does not count; on a standby, which does not see the sessions of its primary, every
session counts.';

CREATE OR REPLACE FUNCTION dbanon_internal.wake_workers() RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_notify(w.channel, '') FROM dbanon.worker w
$$;
COMMENT ON FUNCTION dbanon_internal.wake_workers IS 'Notifies every worker that there is something to do, each on its own channel, which others cannot name.';

CREATE OR REPLACE FUNCTION dbanon_internal.register_worker(name text) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    drawn CONSTANT text := 'dbanon_' || replace(gen_random_uuid()::text, '-', '');
BEGIN
    INSERT INTO dbanon.worker (name, channel, held_by) VALUES (register_worker.name, drawn, dbanon_internal.hold_lock());
    RETURN drawn;
END
$$;
COMMENT ON FUNCTION dbanon_internal.register_worker IS 'Enters a worker, which counts as up for as long as the calling session lasts.';

CREATE OR REPLACE FUNCTION dbanon_internal.make_default_seed(dataset_id bigint, method text, algorithm text, params jsonb) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
    -- The first 63 bits: with fewer, an adversary that knows how many ties were broken could try all seeds.
    -- Times that are given are parameters. Where none is, all of the dataset is meant, which is not read here: another run may hold it.
    SELECT ('x' || left(encode(sha256(p.key || convert_to(jsonb_build_array(method, algorithm, params, d.dataset_id)::text, 'UTF8')), 'hex'), 16)
           )::bit(64)::bigint & 9223372036854775807
    FROM ONLY dbanon.dataset d JOIN ONLY dbanon.population p ON p.population_id = d.population_id
    WHERE d.dataset_id = make_default_seed.dataset_id
$$;
COMMENT ON FUNCTION dbanon_internal.make_default_seed IS
'The seed of a run that is given none: a hash, keyed by the population, of method, algorithm, checked parameters with their times, and dataset,
so that the same run again gives the same groups, and another time others.';

CREATE OR REPLACE FUNCTION dbanon_internal.insert_run(dataset text, method text, params jsonb, algorithm text, seed bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    chosen CONSTANT text := dbanon_internal.demand_algorithm(method, algorithm);
    checked CONSTANT jsonb := dbanon_internal.complete_params(method, chosen, params);
    about dbanon.dataset;
    new_run bigint;
BEGIN
    IF seed < 0 THEN
        RAISE EXCEPTION 'The seed must be an integer >= 0 and < 2^63. Got % instead. Choose another.', seed
            USING ERRCODE = 'DA011', DETAIL = 'The same data, parameters and seed give the same cloaks.', HINT = 'Leave it out to have one made.';
    END IF;
    about := dbanon_internal.demand_dataset(dataset);
    -- Parameters were checked above, by the registry: a worker may still refuse them for the data, never for their form.
    INSERT INTO dbanon.run (dataset_id, method, algorithm, params, seed, todo)
        VALUES (about.dataset_id, method, chosen, checked,
                coalesce(seed, dbanon_internal.make_default_seed(about.dataset_id, method, chosen, checked)), 'compute')
        RETURNING run_id INTO new_run;
    PERFORM dbanon_internal.wake_workers();
    RETURN new_run;
END
$$;
COMMENT ON FUNCTION dbanon_internal.insert_run IS 'Queues a run, also one that would promise nothing. Raises an error if there can be no such run.';

CREATE OR REPLACE FUNCTION dbanon.submit_run(
    dataset text, method text, params jsonb DEFAULT '{}', algorithm text DEFAULT NULL, seed bigint DEFAULT NULL, allow_no_requests boolean DEFAULT false)
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    checked CONSTANT jsonb := dbanon_internal.complete_params(method, algorithm, params);
BEGIN
    PERFORM dbanon_internal.demand_needs(
        dbanon_internal.demand_dataset(dataset), method, checked, CASE WHEN allow_no_requests THEN ARRAY['requests'] ELSE '{}' END);
    RETURN dbanon_internal.insert_run(dataset, method, params, algorithm, seed);
END
$$;
COMMENT ON FUNCTION dbanon.submit_run IS
'Queues a run for the next worker that is free and returns at once.
Arguments:
- dataset: @Submitting.dataset@
- method: the method, as listed in dbanon.methods.
- params: parameters of the method, as a JSON object (see dbanon.method_parameters).
- algorithm: @Submitting.algorithm@
- seed: @Submitting.seed@
- allow_no_requests: @Submitting.allow_no_requests@
Returns: the number of the run. Watch it in dbanon.runs.
Raises: DA001 for the dataset. DA011 for method, algorithm and parameters. DA024 if the dataset lacks what the method hides.
Example: SELECT dbanon.submit_run(''taxi'', ''METHOD'', ''{"k": 20}'').';

CREATE OR REPLACE FUNCTION dbanon_internal.claim_run(worker text, run_id bigint DEFAULT NULL) RETURNS TABLE (
    claimed_run bigint, lock_key bigint, attempt integer, todo text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    next dbanon.run;
    held dbanon.session;
BEGIN
    -- The oldest first; a row that another worker is taking at this moment is skipped instead of waited for.
    SELECT run.* INTO next FROM dbanon.run run
        WHERE run.todo IS NOT NULL AND run.worker IS NULL AND (claim_run.run_id IS NULL OR run.run_id = claim_run.run_id)
        ORDER BY run.run_id LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF next.run_id IS NULL THEN
        RETURN;
    END IF;
    -- The lock is taken before the row names the worker: a worker without its lock counts as dead.
    held := dbanon_internal.hold_lock();
    RETURN QUERY UPDATE dbanon.run run
        SET worker = claim_run.worker, held_by = held, attempts = run.attempts + 1,
            -- A run that its own command has taken is not begun again by others.
            most_attempts = CASE WHEN claim_run.run_id IS NULL THEN run.most_attempts ELSE run.attempts + 1 END,
            status = CASE run.todo WHEN 'compute' THEN 'running' ELSE run.status END,
            started_at = CASE run.todo WHEN 'compute' THEN clock_timestamp() ELSE run.started_at END
        WHERE run.run_id = next.run_id
        RETURNING run.run_id, held.lock_key, run.attempts, run.todo;
END
$$;
COMMENT ON FUNCTION dbanon_internal.claim_run IS
'Takes the oldest run that waits, or a certain one, for the calling session, which holds an advisory lock on it until it
releases it or ends.';

CREATE OR REPLACE FUNCTION dbanon_internal.watch_run(
    run_id bigint, attempt integer, stage text DEFAULT NULL, done bigint DEFAULT NULL, total bigint DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    state dbanon.run;
BEGIN
    SELECT run.* INTO state FROM dbanon.run run WHERE run.run_id = watch_run.run_id;
    -- The verdict was committed, perhaps by this very worker, whose connection was lost before it heard of it.
    IF state.attempts = attempt AND state.todo IS NULL AND state.status IN ('verified', 'refused') THEN
        RETURN 'done';
    END IF;
    -- Dropped, given back to the queue, or taken by another worker since: this one must write nothing more.
    IF state.run_id IS NULL OR state.worker IS NULL OR state.attempts <> attempt THEN
        RETURN 'lost';
    END IF;
    IF (state.stage, state.stage_done, state.stage_total) IS DISTINCT FROM (watch_run.stage, done, total) THEN
        -- The worker that writes the run's rows holds its row for a while; progress must not wait for that.
        UPDATE dbanon.run run SET stage = watch_run.stage, stage_done = done, stage_total = total
            WHERE run.run_id = (SELECT run.run_id FROM dbanon.run run WHERE run.run_id = watch_run.run_id AND run.attempts = attempt
                                AND run.worker IS NOT NULL FOR UPDATE SKIP LOCKED);
    END IF;
    RETURN CASE WHEN state.cancel_requested_at IS NULL THEN 'go on' ELSE 'cancel' END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.watch_run IS 'Writes how far a worker is with a run, and returns whether it is to go on; workers call it at intervals.';

CREATE OR REPLACE FUNCTION dbanon_internal.abandon_attempt(run dbanon.run, over boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF run.todo = 'compute' THEN
        -- A half-computed run has rows that no digest covers.
        PERFORM dbanon_internal.delete_rows(run.run_id);
        UPDATE dbanon.run stored
            SET worker = NULL, stage = NULL, stage_done = NULL, stage_total = NULL, todo = CASE WHEN NOT over THEN stored.todo END, rows = NULL,
                status = CASE WHEN stored.cancel_requested_at IS NOT NULL THEN 'cancelled' WHEN over THEN 'failed' ELSE 'queued' END,
                started_at = CASE WHEN over THEN stored.started_at END, finished_at = CASE WHEN over THEN clock_timestamp() END,
                error_kind = CASE WHEN over AND stored.cancel_requested_at IS NULL THEN 'other' END,
                error = CASE WHEN stored.cancel_requested_at IS NOT NULL THEN format('Run %s was cancelled by %s.', stored.run_id, stored.cancel_requested_by)
                             WHEN over THEN coalesce(stored.error, dbanon_internal.describe_lost_worker()) END
            WHERE stored.run_id = run.run_id;
    ELSE  -- a verification or an evaluation writes no rows, and leaves the run its status
        UPDATE dbanon.run stored
            SET worker = NULL, stage = NULL, stage_done = NULL, stage_total = NULL, todo = CASE WHEN NOT over THEN stored.todo END, error_kind = NULL,
                error = CASE WHEN over AND stored.cancel_requested_at IS NULL THEN coalesce(stored.error, format(
                    'The last %s did not finish.', CASE stored.todo WHEN 'verify' THEN 'verification' ELSE 'evaluation' END)) ELSE stored.error END
            WHERE stored.run_id = run.run_id;
    END IF;
    IF NOT over THEN
        PERFORM dbanon_internal.wake_workers();
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.abandon_attempt IS 'Takes a run from its worker and deletes what it wrote.';

CREATE OR REPLACE FUNCTION dbanon_internal.requeue_run(run_id bigint, attempt integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    state dbanon.run;
BEGIN
    -- The attempt is given back as well: a worker that is stopped on purpose says nothing about the run.
    UPDATE dbanon.run run SET most_attempts = run.most_attempts + 1
        WHERE run.run_id = requeue_run.run_id AND run.attempts = attempt AND run.worker IS NOT NULL RETURNING run.* INTO state;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM dbanon_internal.abandon_attempt(state, over => state.cancel_requested_at IS NOT NULL);
    RETURN true;
END
$$;
COMMENT ON FUNCTION dbanon_internal.requeue_run IS
'Gives a run back to the queue, by a worker that was asked to stop; this attempt does not count; if its cancellation was
requested, it is cancelled.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_lost_worker() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'The process that computed the run ended before the run was done, and the rows it wrote were deleted. Start another run.'
$$;
COMMENT ON FUNCTION dbanon_internal.describe_lost_worker IS 'The error of a run whose worker ended early for the last time.';

CREATE OR REPLACE FUNCTION dbanon_internal.reap_run(run_id bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    dead dbanon.run;
BEGIN
    -- Rows of runs that are being worked on are not locked: the caller may have a transaction open for long.
    SELECT run.* INTO dead FROM dbanon.run run
        WHERE run.run_id = reap_run.run_id AND run.todo IS NOT NULL AND run.worker IS NOT NULL AND NOT dbanon_internal.is_held(run.held_by)
        FOR UPDATE SKIP LOCKED;
    IF dead.run_id IS NULL THEN
        RETURN false;
    END IF;
    PERFORM dbanon_internal.abandon_attempt(dead, over => dead.cancel_requested_at IS NOT NULL OR dead.attempts >= dead.most_attempts);
    RETURN true;
END
$$;
COMMENT ON FUNCTION dbanon_internal.reap_run IS 'Takes a run from a worker whose session has ended.';

CREATE OR REPLACE FUNCTION dbanon_internal.reap_runs() RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    candidate bigint;
    reaped integer := 0;
BEGIN
    -- On a standby nothing can be written; its primary looks after the runs.
    IF current_setting('transaction_read_only')::boolean THEN
        RETURN 0;
    END IF;
    -- Looked for without locks first; each run found is then locked and looked at again.
    FOR candidate IN
        SELECT run.run_id FROM dbanon.run run
        WHERE run.todo IS NOT NULL AND run.worker IS NOT NULL AND NOT dbanon_internal.is_held(run.held_by) ORDER BY run.run_id
    LOOP
        reaped := reaped + dbanon_internal.reap_run(candidate)::integer;
    END LOOP;
    DELETE FROM dbanon.worker wor WHERE wor.worker_id IN (
        SELECT wor.worker_id FROM dbanon.worker wor WHERE NOT dbanon_internal.is_held(wor.held_by) FOR UPDATE SKIP LOCKED);
    PERFORM dbanon_internal.drop_untied();
    RETURN reaped;
END
$$;
COMMENT ON FUNCTION dbanon_internal.reap_runs IS
'Looks for runs whose worker''s session has ended, and deletes what they wrote: they go back to the queue, or are failed after the
last attempt, or cancelled where that was requested; deletes the workers, samples and runs of sweeps whose session has ended; in a transaction that may only
read, as on a standby, it does nothing.';

CREATE OR REPLACE FUNCTION dbanon_internal.lock_run(run_id bigint) RETURNS dbanon.run
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    state dbanon.run;
BEGIN
    -- Before the row is locked: a run of a dead worker goes back to the queue first, and is then what it appears to be.
    PERFORM dbanon_internal.reap_run(lock_run.run_id);
    SELECT run.* INTO state FROM dbanon.run run WHERE run.run_id = lock_run.run_id FOR UPDATE;
    IF state.run_id IS NULL THEN
        PERFORM dbanon_internal.refuse_no_run(lock_run.run_id);
    END IF;
    RETURN state;
END
$$;
COMMENT ON FUNCTION dbanon_internal.lock_run IS
'Keeps others from a run''s row until the transaction ends, after having looked whether its worker''s session has ended. Raises an error if there is
no such run.';

CREATE OR REPLACE FUNCTION dbanon.cancel_run(run_id bigint) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    state CONSTANT dbanon.run := dbanon_internal.lock_run(cancel_run.run_id);
BEGIN
    IF state.todo IS NULL THEN
        RAISE EXCEPTION 'A run to cancel must wait in the queue or be computed. Run % is %.', state.run_id, state.status
            USING ERRCODE = 'DA013', DETAIL = format('Status of run %s: %s.', state.run_id, state.status),
                  HINT = format('There is nothing to do. If it was never published, SELECT dbanon.drop_run(%s) deletes it.', state.run_id);
    END IF;
    -- No worker has it: it can be ended here. A waiting verification is taken back and leaves the run what it was.
    IF state.worker IS NULL AND state.todo = 'compute' THEN
        UPDATE dbanon.run run
            SET status = 'cancelled', todo = NULL, finished_at = clock_timestamp(),
                error = format('Run %s was cancelled by %s.', run.run_id, session_user),
                cancel_requested_at = clock_timestamp(), cancel_requested_by = session_user
            WHERE run.run_id = state.run_id;
        RETURN 'cancelled';
    END IF;
    IF state.worker IS NULL THEN
        UPDATE dbanon.run run SET todo = NULL, cancel_requested_at = clock_timestamp(), cancel_requested_by = session_user
            WHERE run.run_id = state.run_id;
        RETURN state.status;
    END IF;
    -- A worker has it and alone may undo what it wrote: it is asked to. The first request is the one on record.
    UPDATE dbanon.run run SET cancel_requested_at = clock_timestamp(), cancel_requested_by = session_user
        WHERE run.run_id = state.run_id AND run.cancel_requested_at IS NULL;
    PERFORM dbanon_internal.wake_workers();
    RETURN 'being cancelled';
END
$$;
COMMENT ON FUNCTION dbanon.cancel_run IS
'Cancels a run, or the verification of one. If it waits, it ends at once. If a worker computes it, it ends within seconds, and nothing that it wrote
stays. If a verification is cancelled, the run keeps its status.
Arguments:
- run_id: the number of the run.
Returns: ''being cancelled'', or the status that the run has now.
Raises: DA001. DA013 if there is nothing to cancel.
Example: SELECT dbanon.cancel_run(1).';

CREATE OR REPLACE FUNCTION dbanon.verify_run(run_id bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    state CONSTANT dbanon.run := dbanon_internal.lock_run(verify_run.run_id);
BEGIN
    IF state.todo IS NOT NULL THEN
        RAISE EXCEPTION 'Run % is % and still has work to be done, so no verification was queued. Wait until it is done.', state.run_id, state.status
            USING ERRCODE = 'DA013', DETAIL = format('To do: %s.', state.todo),
                  HINT = format('Watch it with SELECT * FROM dbanon.runs, or end it: SELECT dbanon.cancel_run(%s).', state.run_id);
    END IF;
    IF state.status NOT IN ('computed', 'verified', 'refused') THEN
        RAISE EXCEPTION 'A run must have been computed to be verified. Run % is %.', state.run_id, state.status
            USING ERRCODE = 'DA011', DETAIL = format('Status of run %s: %s.', state.run_id, state.status),
                  HINT = 'Start another run.';
    END IF;
    IF EXISTS (SELECT FROM dbanon.dataset dat WHERE dat.dataset_id = state.dataset_id AND dat.dropped_at IS NOT NULL) THEN
        RAISE EXCEPTION 'A run must have its rows to be verified. The rows of run % went with its dataset.', state.run_id
            USING ERRCODE = 'DA011', DETAIL = 'The dataset was dropped.', HINT = 'Start another run, of another dataset.';
    END IF;
    UPDATE dbanon.run run
        SET todo = 'verify', most_attempts = run.attempts + 3, cancel_requested_at = NULL, cancel_requested_by = NULL
        WHERE run.run_id = state.run_id;
    PERFORM dbanon_internal.wake_workers();
    RETURN state.run_id;
END
$$;
COMMENT ON FUNCTION dbanon.verify_run IS
'Asks the next free worker to attack the stored rows of a run again, and returns at once. The verdict is written to dbanon.verification and decides the
status of the run.
Arguments:
- run_id: the number of the run.
Returns: the same number.
Raises: DA001. DA011 if the run was not computed, or its dataset was dropped. DA013 if a worker works on it.
Example: SELECT dbanon.verify_run(1).';

CREATE OR REPLACE FUNCTION dbanon_internal.ask_evaluation(run_id bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE dbanon.run run
        SET todo = 'evaluate', error = NULL, most_attempts = run.attempts + 3, cancel_requested_at = NULL, cancel_requested_by = NULL
        WHERE run.run_id = ask_evaluation.run_id AND run.todo IS NULL AND run.status = 'verified' AND run.rows > 0;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM dbanon_internal.wake_workers();
    RETURN true;
END
$$;
COMMENT ON FUNCTION dbanon_internal.ask_evaluation IS
'Asks the next free worker to measure a run, as dbanon evaluate does; false where there is nothing to measure, or the run has other work to be done.';

CREATE OR REPLACE FUNCTION dbanon_internal.refuse_no_run(run_id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'The run must exist. There is no run %.', coalesce(run_id::text, 'NULL')
        USING ERRCODE = 'DA001', DETAIL = 'Looked in dbanon.run.', HINT = 'List the runs: SELECT * FROM dbanon.runs.';
END
$$;
COMMENT ON FUNCTION dbanon_internal.refuse_no_run IS 'Says that there is no such run.';
