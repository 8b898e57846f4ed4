-- Jobs: running what is due, and saying beforehand what would be.

CREATE OR REPLACE FUNCTION dbanon_internal.demand_own_login() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- With SET ROLE, or SET SESSION AUTHORIZATION of a superuser, a function that a source calls could go back to the rights of the login.
    IF current_user <> session_user
        OR (SELECT a.usesysid FROM pg_stat_activity a WHERE a.pid = pg_backend_pid()) <> (SELECT r.oid FROM pg_roles r WHERE r.rolname = session_user) THEN
        RAISE EXCEPTION 'Jobs must be run and planned by a session with the rights it has logged in with. This one has taken those of %.', current_user
            USING ERRCODE = 'DA014', DETAIL = 'A function that a source calls could take back the rights of the login.', HINT = 'Connect as the owner of the jobs.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_own_login IS 'Refuses a session that has taken a role since it logged in.';

CREATE OR REPLACE FUNCTION dbanon_internal.begin_jobs(only_job text, within boolean) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    job dbanon.job;
BEGIN
    IF within THEN
        RAISE EXCEPTION 'dbanon.run_jobs must be called outside a transaction block. It was called inside one.'
            USING ERRCODE = 'DA015', DETAIL = 'Each step is a transaction.',
                  HINT = 'End the transaction with COMMIT first. In psql, \set AUTOCOMMIT on. Do not call it in a block with EXCEPTION or in a '
                         'procedure with SET.';
    END IF;
    PERFORM dbanon_internal.demand_own_login();
    IF only_job IS NOT NULL THEN
        job := dbanon_internal.demand_job(only_job);
        RETURN ARRAY[(dbanon_internal.demand_owner(job.job_id)).job_id];
    END IF;
    RETURN ARRAY(SELECT stored.job_id FROM dbanon.job stored WHERE stored.owner = session_user AND stored.removed_at IS NULL
                 -- A source that ends the session each time comes last the next time.
                 ORDER BY stored.looked_at NULLS FIRST, stored.job_id);
END
$$;
COMMENT ON FUNCTION dbanon_internal.begin_jobs IS
'Gives the jobs that dbanon.run_jobs is to look at. Raises an error in a transaction block, in a session that has taken a role, or if the login owns
no such job.';

CREATE OR REPLACE FUNCTION dbanon_internal.count_held(job_ids bigint[], strict boolean) RETURNS integer
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held CONSTANT integer := (SELECT count(*) FROM dbanon.job_period p WHERE p.job_id = ANY (job_ids) AND p.state = 'held');
BEGIN
    IF strict AND held > 0 THEN
        RAISE EXCEPTION 'Jobs of %: % held.', session_user, dbanon_internal.format_quantity(held, 'period is', 'periods are')
            USING ERRCODE = 'DA019', DETAIL = 'All that could be done was done, and is committed.',
                  HINT = 'See why: SELECT * FROM dbanon.job_runs. Then retry or skip them: SELECT dbanon.steer_job(name, ''retry'').';
    END IF;
    RETURN held;
END
$$;
COMMENT ON FUNCTION dbanon_internal.count_held IS
'Counts the periods of some jobs that are held; if strict, raises an error for them, so that a caller such as pg_cron shows one.';

CREATE OR REPLACE FUNCTION dbanon_internal.read_settings(search_path text) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL RESTRICTED CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- The search path is given, since here it is another.
    SELECT jsonb_object_agg(s.name, current_setting(s.name)) || jsonb_build_object('search_path', search_path)
    FROM pg_settings s WHERE s.context IN ('user', 'superuser')
$$;
COMMENT ON FUNCTION dbanon_internal.read_settings IS 'The settings that a session can change.';

CREATE OR REPLACE FUNCTION dbanon_internal.restore_settings(settings jsonb, search_path text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed record;
BEGIN
    FOR changed IN
        SELECT bef.key, bef.value
        FROM jsonb_each_text(settings) bef JOIN jsonb_each_text(dbanon_internal.read_settings(search_path)) aft ON aft.key = bef.key
        WHERE aft.value <> bef.value
    LOOP
        BEGIN
            PERFORM set_config(changed.key, changed.value, false);
        EXCEPTION WHEN others THEN
            NULL;  -- Some can be changed at the beginning of a session only, and decide about no job.
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.restore_settings IS
'Gives a session back the settings that it had before a source''s function changed them, such as a time limit, so that the next step and other jobs go on.';

-- The procedure has no settings (with them it could not commit), so it looks up nothing by an unqualified name.
CREATE OR REPLACE PROCEDURE dbanon.run_jobs(
    only_job text DEFAULT NULL, wait boolean DEFAULT true, strict boolean DEFAULT false, INOUT advanced integer DEFAULT NULL, INOUT held integer DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
    within boolean;
    ids bigint[];
    id bigint;
    outcome jsonb;
    state text;
    taken boolean;
    settings CONSTANT jsonb := dbanon_internal.read_settings(pg_catalog.current_setting('search_path'));
BEGIN
    -- As in dbanon.anonymize.
    BEGIN
        COMMIT;
    EXCEPTION WHEN invalid_transaction_termination THEN
        within := SQLERRM OPERATOR(pg_catalog.=) dbanon_internal.read_commit_error();
    END;
    IF NOT within THEN
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    END IF;
    ids := dbanon_internal.begin_jobs(only_job, within);
    advanced := 0;
    FOREACH id IN ARRAY ids LOOP
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        taken := dbanon_internal.claim_job(id);
        WHILE taken LOOP
            COMMIT;
            SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
            outcome := dbanon_internal.advance_job(id);
            state := outcome OPERATOR(pg_catalog.->>) 'state';
            IF state OPERATOR(pg_catalog.<>) ALL (ARRAY['idle', 'waiting']) THEN  -- a source may have been read
                PERFORM dbanon_internal.restore_settings(settings, pg_catalog.current_setting('search_path'));
            END IF;
            COMMIT;
            SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
            EXIT WHEN state OPERATOR(pg_catalog.=) 'idle';
            IF state OPERATOR(pg_catalog.=) 'waiting' THEN
                EXIT WHEN NOT wait OR NOT EXISTS (SELECT FROM dbanon.workers);
                PERFORM pg_catalog.pg_sleep(0.2);
            ELSE
                advanced := advanced OPERATOR(pg_catalog.+) 1;
                RAISE NOTICE 'Job %, %, %: %', outcome OPERATOR(pg_catalog.->>) 'job', outcome OPERATOR(pg_catalog.->>) 'period',
                    outcome OPERATOR(pg_catalog.->>) 'step', coalesce(outcome OPERATOR(pg_catalog.->>) 'error', state)
                    USING DETAIL = outcome::text;
            END IF;
        END LOOP;
        IF taken THEN PERFORM dbanon_internal.leave_job(id); END IF;
    END LOOP;
    COMMIT;
    held := dbanon_internal.count_held(ids, strict);
END
$$;
COMMENT ON PROCEDURE dbanon.run_jobs IS
'Takes all steps of the jobs of this login that are due, each in a transaction of its own. Call it each minute. Any number of sessions may call it,
because each job is done by one of them at a time. If it is killed at any moment, it loses nothing. A worker must be up to compute the runs. An error
of a job is in dbanon.job_runs and stops no other job.
Arguments:
- only_job: name of a job. Default: all jobs of this login.
- wait: wait for runs. Otherwise a later call goes on.
- strict: raise an error at the end if a period is held.
Returns: one row.
- advanced: how many steps it took. Leave it out of the call.
- held: how many periods of these jobs are held. Leave it out of the call.
Raises: DA001. DA014 in a session with another role than the one that logged in. DA015 inside a transaction block. DA019 with strict.
Example: CALL dbanon.run_jobs().';

CREATE OR REPLACE FUNCTION dbanon.plan_job(name text, periods integer DEFAULT 7) RETURNS TABLE (
    since timestamptz, until timestamptz, at_source bigint, due_at timestamptz, note text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    job CONSTANT dbanon.job := dbanon_internal.demand_owner((dbanon_internal.demand_job(plan_job.name)).job_id);
    bounds tstzrange := dbanon_internal.find_next_period(job);
    history CONSTANT interval := dbanon_internal.compute_job_history(job);
BEGIN
    PERFORM dbanon_internal.demand_own_login();
    IF (periods BETWEEN 1 AND 1000) IS NOT TRUE THEN
        RAISE EXCEPTION 'The number of periods to plan must be from 1 to 1,000. Got %.', coalesce(periods::text, 'NULL')
            USING ERRCODE = 'DA011', DETAIL = 'The source is asked about each.', HINT = 'Give a smaller one.';
    END IF;
    FOR number IN 1 .. periods LOOP
        EXIT WHEN bounds IS NULL;
        since := lower(bounds);
        at_source := dbanon_internal.ask_times(job, 'count', since, upper(bounds));
        until := CASE WHEN at_source = 0 AND upper(bounds) <= now() THEN dbanon_internal.find_gap_end(job, bounds) ELSE upper(bounds) END;
        due_at := until + job.wait;
        note := CASE WHEN due_at > now() THEN 'not due yet'
            WHEN dbanon_internal.ask_times(job, 'any', until, clock_timestamp()) = 0 THEN 'waits until the source has a row from after it'
            WHEN at_source = 0 THEN 'skipped: the source has no row of it'
            WHEN history = '0' OR dbanon_internal.ask_times(job, 'any', since - history, since) = 1 THEN ''
            ELSE format('the source has nothing from the %s before it, so few people are known at its beginning', history) END;
        RETURN NEXT;
        bounds := dbanon_internal.find_period_from(job.starts, job.every, job.tz, until);
    END LOOP;
END
$$;
COMMENT ON FUNCTION dbanon.plan_job IS
'Predicts the next steps of a job. It writes nothing and reads the source, so only a session that has logged in as the owner plans it.
Arguments:
- name: name of the job.
- periods: how many periods.
Returns: one row a period.
- since: its beginning.
- until: its end.
- at_source: how many rows the source has of it.
- due_at: when it is due.
- note: how it would end.
Raises: DA001. DA011. DA012 and DA014 as the load would. DA014 in a session of another login, or with another role than the one that logged in.
Example: SELECT * FROM dbanon.plan_job(''taxi_days'').';

-- ---- what can be seen

CREATE OR REPLACE VIEW dbanon.jobs AS
SELECT job.name, job.owner,
    CASE WHEN job.paused THEN 'paused' WHEN rol.oid IS NULL THEN 'orphaned' WHEN tot.held > 0 THEN 'held' WHEN work.running THEN 'working'
         WHEN tot.tries > 0 THEN 'retrying' WHEN tot.open THEN 'under way' ELSE 'idle' END AS state,
    tot.published_until, now() - tot.published_until AS lag, tot.last_success,
    coalesce(tot.next_at, nxt.ends + greatest(job.wait, job.created_at - nxt.ends)) AS next_at, coalesce(tot.tries, 0) AS tries, tot.held, tot.late,
    tot.gone, tot.last_error,
    CASE WHEN work.running THEN (job.held_by).pid END AS runner, job.looked_at, job.dataset, job.method, job.every, job.wait
FROM dbanon.job job
LEFT JOIN pg_roles rol ON rol.rolname = job.owner
CROSS JOIN LATERAL (SELECT upper(dbanon_internal.find_next_period(job)) AS ends) nxt
-- Of a session of another login its start is not known to the owner of the functions: held_by has a NULL then.
CROSS JOIN LATERAL (SELECT (job.held_by).pid IS NOT NULL AND dbanon_internal.is_held(job.held_by) AS running) work
CROSS JOIN LATERAL (
    SELECT coalesce(min(lower(jpe.period)) FILTER (WHERE jpe.state NOT IN ('done', 'retain', 'skipped')), max(upper(jpe.period)),
                    job.starts) AS published_until,
        max(jpe.finished_at) FILTER (WHERE jpe.state = 'done') AS last_success, count(*) FILTER (WHERE jpe.state = 'held') AS held,
        max(jpe.late) FILTER (WHERE jpe.period = newest.last) AS late, max(jpe.gone) FILTER (WHERE jpe.period = newest.last) AS gone,
        bool_or(jpe.state NOT IN ('done', 'skipped', 'held')) AS open,
        max(jpe.tries) FILTER (WHERE jpe.state NOT IN ('done', 'skipped', 'held')) AS tries,
        min(jpe.next_at) FILTER (WHERE jpe.state NOT IN ('done', 'skipped', 'held')) AS next_at,
        -- What waits for its source has a sentence, but no SQLSTATE: that is no error.
        (array_agg(jpe.error ORDER BY jpe.changed_at DESC) FILTER (
            WHERE jpe.sqlstate IS NOT NULL AND (jpe.state <> 'done' OR jpe.period = newest.last)))[1] AS last_error
    FROM dbanon.job_period jpe
    CROSS JOIN (SELECT jpe.period AS last FROM dbanon.job_period jpe WHERE jpe.job_id = job.job_id ORDER BY jpe.period DESC LIMIT 1) newest
    WHERE jpe.job_id = job.job_id) tot
WHERE job.removed_at IS NULL;

CREATE OR REPLACE VIEW dbanon.job_runs AS
SELECT j.name, lower(p.period) AS since, upper(p.period) AS until, p.state, p.skipped_as, p.tries, p.next_at, p.at_source, p.rows_new, p.known, p.late,
    p.gone, p.forgotten, p.load_ids, p.run_id, p.release_id, p.sqlstate, p.error, p.started_at, p.changed_at, p.finished_at,
    j.load ->> 'read_dsn' AS read_dsn
FROM dbanon.job_period p JOIN dbanon.job j ON j.job_id = p.job_id
ORDER BY j.name, p.job_id, p.period;

CREATE OR REPLACE FUNCTION dbanon_internal.list_job_findings() RETURNS TABLE (level integer, about text, what text, since timestamptz, remedy text)
LANGUAGE sql VOLATILE PARALLEL RESTRICTED CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT fin.level, 'job ' || job.name, fin.what, fin.since, fin.remedy
    FROM dbanon.jobs job
    CROSS JOIN LATERAL (VALUES
        (2, job.state = 'orphaned', format('Job %s has no owner: there is no role %s.', job.name, job.owner), NULL,
         'Give it another: SELECT dbanon.add_job(..., owner => ..., replace => true)'),
        (2, job.next_at IS NULL, format('Job %s has no next period, since the server does not know its time zone.', job.name), NULL,
         'Change it: SELECT dbanon.add_job(..., replace => true)'),
        (2, job.held > 0, format('Job %s: %s held.', job.name, dbanon_internal.format_quantity(job.held, 'period is', 'periods are')),
         (SELECT min(jru.finished_at) FROM dbanon.job_runs jru WHERE jru.name = job.name AND jru.state = 'held'),
         CASE WHEN EXISTS (SELECT FROM dbanon.job_runs jru WHERE jru.name = job.name AND jru.state = 'held' AND jru.sqlstate = 'DA025')
              THEN 'See what the policy asks: SELECT error FROM dbanon.job_runs WHERE state = ''held'''  -- another run needs other signatures
              ELSE format('See why, then retry or skip: SELECT dbanon.steer_job(%L, ''retry'')', job.name) END),
        -- A session of the owner that is at work on another job comes to this one afterwards.
        (2, job.state NOT IN ('orphaned', 'paused') AND greatest(job.looked_at, job.next_at) < now() - interval '5 minutes'
            AND NOT EXISTS (SELECT FROM dbanon.jobs busy WHERE busy.owner = job.owner AND busy.runner IS NOT NULL),
         format('Job %s is due, and no session runs it.', job.name), job.next_at,
         format('Run it as %s, each minute: CALL dbanon.run_jobs()', job.owner)),
        (1, job.state <> 'paused' AND job.held = 0 AND job.lag > job.every + job.wait + interval '1 hour',
         format('Job %s is late.', job.name), job.published_until, 'See dbanon.job_runs'),
        (1, job.tries > 0, format('Job %s has failed and tries again.', job.name), NULL, 'See dbanon.job_runs'),
        (1, job.late > 0, format('Rows came after their period was published, and job %s omitted them.', job.name), NULL, 'Give it a longer wait'),
        (1, job.gone > 0, format('Job %s has published periods of which the source has fewer rows than when they were loaded.', job.name), NULL,
         'Forget here the people that the source has forgotten. If it keeps rows for a short time only, give the job a shorter lateness'),
        (1, job.tries = 0 AND job.held = 0 AND job.last_error IS NOT NULL, format('Job %s: %s', job.name, job.last_error), NULL, NULL)
    ) fin (level, holds, what, since, remedy)
    WHERE fin.holds
$$;
COMMENT ON FUNCTION dbanon_internal.list_job_findings IS 'What is wrong with jobs, for dbanon.health.';
