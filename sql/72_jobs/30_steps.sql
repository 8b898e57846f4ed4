-- Jobs: the steps of a period. One transaction a step: what it does and the state after it are committed together, so that a session that is
-- killed at any moment leaves a period that another goes on with. Each step returns what becomes of the period's row.
--
--   load -> run -> compute -> (evaluate ->) publish -> retain -> done        or skipped (nothing there, too few people, asked for), or held

-- ---- rows of periods

CREATE OR REPLACE FUNCTION dbanon_internal.demand_owner(job_id bigint) RETURNS dbanon.job
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    job dbanon.job;
BEGIN
    SELECT j.* INTO job FROM dbanon.job j WHERE j.job_id = demand_owner.job_id AND j.owner = session_user;
    IF job.job_id IS NULL THEN
        RAISE EXCEPTION 'A job must be run and planned by a session that has logged in as its owner. This one has logged in as another.'
            USING ERRCODE = 'DA014', DETAIL = 'Functions that the source calls run with the rights of the session.', HINT = 'Connect as the owner, which dbanon.jobs names.';
    END IF;
    RETURN job;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_owner IS 'The job of a number, for its owner alone.';

CREATE OR REPLACE FUNCTION dbanon_internal.claim_job(job_id bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    job CONSTANT dbanon.job := dbanon_internal.demand_owner(claim_job.job_id);
    taken dbanon.job;
    old dbanon.session;
    step dbanon.job_period;
BEGIN
    SELECT stored.* INTO taken FROM dbanon.job stored WHERE stored.job_id = job.job_id AND stored.removed_at IS NULL AND NOT stored.paused
        FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN false; END IF;
    old := taken.held_by;
    IF old.pid = pg_backend_pid() THEN  -- of a call that was interrupted
        PERFORM pg_advisory_unlock(old.lock_key) FROM pg_locks loc
            WHERE loc.pid = pg_backend_pid() AND loc.locktype = 'advisory' AND (loc.classid::bigint << 32) | loc.objid::bigint = old.lock_key;
    ELSIF dbanon_internal.is_held(old) THEN
        RETURN false;
    END IF;
    UPDATE dbanon.job stored SET held_by = dbanon_internal.hold_lock(), looked_at = clock_timestamp() WHERE stored.job_id = job.job_id;
    -- A source can end the call that reads it, even at COMMIT, so that nothing else is written of it.
    step := CASE WHEN old.pid IS NOT NULL THEN dbanon_internal.open_period(job.job_id) END;
    IF step.state = 'load' THEN
        PERFORM dbanon_internal.set_period(job.job_id, step.period, dbanon_internal.fail_step(job, step, '57014', NULL, NULL) - 'next_at');
    END IF;
    RETURN true;
END
$$;
COMMENT ON FUNCTION dbanon_internal.claim_job IS
'Takes a job for the calling session, which then holds an advisory lock on it until it gives the job back or ends; false if another session has the
job, or the job is paused or removed. Raises an error if the login is not the owner.';

CREATE OR REPLACE FUNCTION dbanon_internal.leave_job(job_id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    job CONSTANT dbanon.job := dbanon_internal.demand_owner(leave_job.job_id);
BEGIN
    IF (job.held_by).pid = pg_backend_pid() THEN
        PERFORM pg_advisory_unlock((job.held_by).lock_key);
        UPDATE dbanon.job j SET held_by = NULL WHERE j.job_id = job.job_id;
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.leave_job IS 'Gives a job back that the calling session has taken. Raises an error if the login is not the owner.';

CREATE OR REPLACE FUNCTION dbanon_internal.open_period(job_id bigint) RETURNS dbanon.job_period
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    job CONSTANT dbanon.job := dbanon_internal.demand_owner(open_period.job_id);
    open dbanon.job_period;
    bounds tstzrange;
BEGIN
    -- Locked, so that nobody steers the period meanwhile.
    SELECT jpe.* INTO open FROM dbanon.job_period jpe
        WHERE jpe.job_id = job.job_id AND jpe.state NOT IN ('done', 'skipped')
            -- What waits for a signature would have to be computed again after the next load.
            AND (job.on_held = 'stop' OR jpe.state <> 'held'
                 OR (jpe.sqlstate = 'DA025' AND (SELECT fault.waits FROM dbanon_internal.find_policy_fault(jpe.run_id) fault) IS NOT FALSE))
        ORDER BY jpe.period LIMIT 1 FOR UPDATE;
    IF open.state = 'held' AND open.sqlstate = 'DA025' AND (SELECT fault.text FROM dbanon_internal.find_policy_fault(open.run_id) fault) IS NULL THEN
        UPDATE dbanon.job_period jpe SET state = 'publish', tries = 0, next_at = clock_timestamp(), sqlstate = NULL, error = NULL, finished_at = NULL
            WHERE jpe.job_id = job.job_id AND jpe.period = open.period RETURNING jpe.* INTO open;
    END IF;
    IF job.paused OR job.removed_at IS NOT NULL OR open.state = 'held' THEN
        RETURN NULL;
    ELSIF open.job_id IS NULL THEN
        bounds := dbanon_internal.find_next_period(job);
        INSERT INTO dbanon.job_period (job_id, period) SELECT job.job_id, bounds WHERE upper(bounds) + job.wait <= clock_timestamp()
            RETURNING * INTO open;
    END IF;
    RETURN open;
END
$$;
COMMENT ON FUNCTION dbanon_internal.open_period IS
'The period of a job that is to be worked on: the first that has not ended, otherwise the next one if it is due. Raises an error if the login is not
the owner.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_error(changes jsonb, job dbanon.job, was dbanon.job_period) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    -- Operators can call what writes a period. Of 'Run 7 is Ann''s.' and the 'Run % is %.' of a function comes 'Run 7 is ....'.
    WITH own AS MATERIALIZED (
        SELECT replace(regexp_replace(lit.eral[1], '''\s*\n\s*''', '', 'g'), '''''', '''') AS text
        FROM pg_proc pro CROSS JOIN regexp_matches(pro.prosrc, '--[^\n]*|''((?:[^'']|''''|''\s*\n\s*'')*)''', 'g') lit (eral)
        WHERE pro.pronamespace IN ('dbanon'::regnamespace, 'dbanon_internal'::regnamespace) AND length(lit.eral[1]) > 20
        UNION ALL SELECT was.error UNION ALL SELECT run.error FROM ONLY dbanon.run run WHERE run.run_id = was.run_id
    ), told AS (
        SELECT DISTINCT ON (sen.nth) sen.nth, own.text, fnd.gaps
        FROM jsonb_path_query(changes, '$.error[*]') WITH ORDINALITY sen (text, nth) CROSS JOIN own
        CROSS JOIN regexp_match(sen.text #>> '{}', '^' || regexp_replace(
            regexp_replace(own.text, '(\W)', '\\\1', 'g'), '\\%[sLI]?', '(.*)', 'g') || '()$') fnd (gaps)
        WHERE fnd.gaps IS NOT NULL ORDER BY sen.nth, length(own.text) DESC
    )
    SELECT coalesce(left(string_agg(par.own || CASE
            WHEN par.gap ~ '^(''?[-0-9]{0,10} ?[-+0-9:.,]{0,21}''?|[0-9A-Z][0-9A-Z]\d\d[0-9A-Z])$'
                OR par.gap ~ '^[\w.''-]+$' AND strpos(to_jsonb(job)::text, to_jsonb(btrim(par.gap, ''''))::text) > 0 THEN par.gap ELSE '...' END,
            '' ORDER BY told.nth, par.nth), 1000), 'The server refused the step ' || was.state || ' (SQLSTATE ' || (changes ->> 'sqlstate') || ').')
    FROM told CROSS JOIN ROWS FROM (regexp_split_to_table(CASE WHEN told.nth > 1 THEN ' ' ELSE '' END || told.text, '%[sLI]?'), unnest(told.gaps))
        WITH ORDINALITY par (own, gap, nth)
$$;
COMMENT ON FUNCTION dbanon_internal.describe_error IS
'Writes the error of a period: those of the sentences given that a function of dbanon, the run or the period has, with numbers, times and names of
the job in their gaps and no other words; without one, the step and the SQLSTATE.';

CREATE OR REPLACE FUNCTION dbanon_internal.set_period(job_id bigint, period tstzrange, changes jsonb) RETURNS dbanon.job_period
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    job CONSTANT dbanon.job := dbanon_internal.demand_owner(set_period.job_id);
    ended CONSTANT timestamptz := coalesce(upper((changes ->> 'period')::tstzrange), upper(period));
    written dbanon.job_period;
BEGIN
    UPDATE dbanon.job_period jpe
        SET (period, state, skipped_as, forced, tries, next_at, at_source, load_ids, rows_new, known, late, gone, forgotten, run_id, release_id, sqlstate,
             changed_at, error, finished_at)
            = (SELECT made.period, made.state, made.skipped_as, made.forced, made.tries, made.next_at, made.at_source, made.load_ids, made.rows_new,
                   made.known, made.late, made.gone, made.forgotten, made.run_id, made.release_id, made.sqlstate, clock_timestamp(),
                   CASE WHEN changes ? 'error' THEN dbanon_internal.describe_error(changes, job, jpe) ELSE jpe.error END,
                   CASE WHEN made.state IN ('done', 'skipped', 'held') THEN coalesce(jpe.finished_at, clock_timestamp()) END
               FROM jsonb_populate_record(jpe, changes) made)
        WHERE jpe.job_id = job.job_id AND jpe.period = set_period.period
            AND (changes ->> 'run_id' IS NULL OR EXISTS (
                SELECT FROM ONLY dbanon.run run JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
                WHERE run.run_id = (changes ->> 'run_id')::bigint AND dat.name = job.dataset))
        RETURNING jpe.* INTO written;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'What is written of a period must be of one that the job has, with a run of its dataset. Job % has none such.', job.name
            USING ERRCODE = 'DA013', DETAIL = 'Only steps of a job write it.', HINT = 'List its periods: SELECT * FROM dbanon.job_runs.';
    END IF;
    -- A gap of the source that is divided because rows of it have come: what follows is looked at next.
    IF ended < upper(period) THEN
        INSERT INTO dbanon.job_period (job_id, period, forced, at_source) VALUES (job.job_id, tstzrange(ended, upper(period)), true, 0);
    END IF;
    IF changes ->> 'state' = 'held' THEN
        INSERT INTO dbanon.audit (action, dataset, release, detail)
            VALUES ('hold_period', job.dataset, job.name, jsonb_build_object(
                'job_id', job.job_id, 'since', lower(period), 'until', upper(period), 'sqlstate', changes ->> 'sqlstate'));
    END IF;
    RETURN written;
END
$$;
COMMENT ON FUNCTION dbanon_internal.set_period IS
'Writes what has become of a period, for the owner of the job, and returns it. Raises an error if the login is not the owner, or if the job has no
such period, or the run is of another dataset.';

-- ---- what goes wrong

CREATE OR REPLACE FUNCTION dbanon_internal.fail_step(
    job dbanon.job, step dbanon.job_period, state text, message text, hint text, leads_to text DEFAULT NULL) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- Promises are not made again by waiting; what is in use is free one day, and a restored database waits for its administrator.
    SELECT jsonb_build_object('state', CASE WHEN f.held THEN 'held' ELSE coalesce(leads_to, CASE f.own WHEN 'DA005' THEN 'run' END, step.state) END,
        'tries', f.tries, 'sqlstate', state,
        'error', CASE WHEN f.own LIKE 'DA%' THEN jsonb_build_array(message, hint) END,
        -- No two jobs that failed together try again together.
        'next_at', clock_timestamp() + least(job.retry * power(2, least(step.tries, 20)), job.every / 4) * (0.87 + 0.26 * random()))
    FROM (SELECT c.own, step.tries + c.counts AS tries, c.own IN ('DA004', 'DA010', 'DA025') OR step.tries + c.counts >= job.max_tries AS held
          FROM (SELECT CASE WHEN message IS NULL THEN '' ELSE state END AS own,
                    (message IS NULL OR state NOT IN ('DA013', 'DA020', '40001', '40P01', '55P03'))::integer AS counts) c) f
$$;
COMMENT ON FUNCTION dbanon_internal.fail_step IS
'Says what becomes of a period after a step failed: the job tries the step again later, or what is given instead, or holds the period; without a
message the SQLSTATE is that of code outside dbanon, and means nothing but a failure.';

CREATE OR REPLACE FUNCTION dbanon_internal.is_foreign_error(state text, context text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    -- The first line names the function that raised it, in the server's language; names of others have a dot, a quote or a bracket before.
    SELECT lin.line !~ '^[^."(]*PL/pgSQL([^."(]*[^."(a-z0-9_])?dbanon(_internal)?[.]' AND CASE
        -- A statement can be cancelled from outside in any function, which ends the session's work; only RAISE makes it an error of a function.
        WHEN state = '57014' THEN lin.line ~ 'RAISE$'
        ELSE state LIKE 'DA%' OR lin.line ~ '^[^."(]*PL/pgSQL' END
    FROM (SELECT split_part(context, E'\n', 1) AS line) lin
$$;
COMMENT ON FUNCTION dbanon_internal.is_foreign_error IS
'Whether a function outside dbanon raised an error, from its SQLSTATE and its context: such an SQLSTATE means nothing to dbanon.';

-- ---- the steps

CREATE OR REPLACE FUNCTION dbanon_internal.load_further(job dbanon.job, since timestamptz, until timestamptz) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    load jsonb;
    new_id bigint;
    ids bigint[] := '{}';
BEGIN
    FOR load IN SELECT ele.value FROM jsonb_array_elements(job.further) WITH ORDINALITY ele (value, ord) ORDER BY ele.ord LOOP
        EXECUTE dbanon_internal.build_further_statement(job, load, load_further.since, load_further.until) INTO new_id;
        ids := ids || new_id;
    END LOOP;
    RETURN ids;
END
$$;
COMMENT ON FUNCTION dbanon_internal.load_further IS 'Loads requests and quasi-identifiers of a span of time for a job.';

CREATE OR REPLACE FUNCTION dbanon_internal.divide_gap(job dbanon.job, step dbanon.job_period) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first_end CONSTANT timestamptz := upper(dbanon_internal.find_period_from(job.starts, job.every, job.tz, lower(step.period)));
    first_row CONSTANT timestamptz := to_timestamp(dbanon_internal.ask_times(job, 'first', lower(step.period), upper(step.period)));
    parted_at CONSTANT timestamptz := CASE
        WHEN first_row < first_end THEN first_end
        ELSE (SELECT b.before FROM dbanon_internal.find_bounds(job.starts, job.every, job.tz, first_row) b) END;
BEGIN
    RETURN jsonb_build_object('period', tstzrange(lower(step.period), coalesce(parted_at, upper(step.period))), 'error', NULL, 'sqlstate', NULL)
        || CASE WHEN first_row < first_end THEN '{}' ELSE jsonb '{"state": "skipped", "skipped_as": "empty"}' END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.divide_gap IS
'Divides a gap of the source that is to be looked at again where the first row of it has come; without one it stays a gap.';

CREATE OR REPLACE FUNCTION dbanon_internal.load_period(job dbanon.job, step dbanon.job_period) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kept_since CONSTANT timestamptz := (SELECT dat.kept_since FROM dbanon.dataset dat WHERE dat.name = job.dataset AND dat.dropped_at IS NULL);
    since CONSTANT timestamptz := greatest(kept_since, lower(step.period) - greatest(job.lateness, dbanon_internal.compute_job_history(job)));
    rows_at_source bigint;
    usual_rows double precision;
    loaded record;
    further_ids bigint[];
    late_for dbanon.job_period;
    past CONSTANT dbanon.job_period[] := ARRAY(
        SELECT jpe FROM dbanon.job_period jpe
        WHERE jpe.job_id = job.job_id AND jpe.state = 'done' AND lower(jpe.period) >= lower(step.period) - job.lateness
            AND jpe.period < step.period ORDER BY jpe.period);
    gone bigint := 0;
BEGIN
    IF step.at_source = 0 AND upper(step.period) > upper(dbanon_internal.find_period_from(job.starts, job.every, job.tz, lower(step.period))) THEN
        RETURN dbanon_internal.divide_gap(job, step);
    END IF;
    -- A server's clock that is ahead makes nothing due: the source must have gone on after the period. A row of the future does not show that.
    IF NOT step.forced AND dbanon_internal.ask_times(job, 'any', upper(step.period), clock_timestamp()) = 0 THEN
        RETURN jsonb_build_object('error', 'The source has no row from after the period yet.', 'sqlstate', NULL,
                                  'next_at', clock_timestamp() + least(job.retry, job.every / 4));
    END IF;
    rows_at_source := dbanon_internal.ask_times(job, 'count', lower(step.period), upper(step.period));
    IF rows_at_source = 0 THEN
        RETURN jsonb_build_object('state', 'skipped', 'skipped_as', 'empty', 'at_source', 0, 'error', NULL, 'sqlstate', NULL,
                                  'period', tstzrange(lower(step.period), dbanon_internal.find_gap_end(job, step.period)));
    END IF;
    IF kept_since > lower(step.period) THEN
        RETURN dbanon_internal.fail_step(job, step, 'DA011',
            format('Data of a period must not have been forgotten before it is loaded. All before %s have been.', kept_since),
            format('Skip it: SELECT dbanon.steer_job(%L, ''skip'', %L, ''its data were forgotten'').', job.name, lower(step.period)), 'held');
    END IF;
    SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY last.at_source) INTO usual_rows
        FROM (SELECT jpe.at_source FROM dbanon.job_period jpe WHERE jpe.job_id = job.job_id AND jpe.state = 'done' AND jpe.period < step.period
              ORDER BY jpe.period DESC LIMIT 7) last;
    IF NOT step.forced AND rows_at_source < job.at_least * usual_rows THEN
        RAISE EXCEPTION 'A period must have at least % times as many rows as those before it, or it is thin and waits. It has %, they had %.',
                job.at_least, dbanon_internal.format_count(rows_at_source), dbanon_internal.format_count(usual_rows::bigint)
            USING ERRCODE = 'DA012', HINT = format('Check the source, or take it as it is: SELECT dbanon.steer_job(%L, ''retry'', %L).',
                job.name, lower(step.period));
    END IF;
    SELECT imp.load_id, imp.rows_kept, cnt.* INTO loaded
        FROM dbanon_internal.import_fixes(
            dbanon_internal.demand_job_source(job.source), dbanon_internal.make_job_loading(job, since, upper(step.period))) imp
        CROSS JOIN dbanon_internal.read_main_counts(imp.left_out) cnt;
    further_ids := dbanon_internal.load_further(job, since, upper(step.period));
    -- What was published stays as it is; that the source no longer has all of it is counted, and said.
    IF cardinality(past) > 0 THEN
        gone := dbanon_internal.ask_times(job, 'gone', lower(past[1].period), lower(step.period), past);
    END IF;
    -- Rows that came after their period was skipped for want of them are loaded now: it is opened again, and is the first to be done.
    FOR late_for IN
        SELECT jpe.* FROM dbanon.job_period jpe
        WHERE jpe.job_id = job.job_id AND jpe.state = 'skipped' AND jpe.skipped_as <> 'asked' AND lower(jpe.period) >= since
            AND jpe.period < step.period
    LOOP
        IF dbanon_internal.ask_times(job, 'count', lower(late_for.period), upper(late_for.period)) > coalesce(late_for.at_source, 0) THEN
            PERFORM dbanon_internal.set_period(job.job_id, late_for.period, '{"state": "load", "skipped_as": null, "tries": 0}');
        END IF;
    END LOOP;
    RETURN jsonb_build_object('state', 'run', 'tries', 0, 'error', NULL, 'sqlstate', NULL, 'at_source', rows_at_source, 'rows_new', loaded.rows_kept,
        'known', loaded.known, 'late', loaded.late, 'gone', gone, 'forgotten', loaded.forgotten, 'load_ids', step.load_ids || loaded.load_id || further_ids);
END
$$;
COMMENT ON FUNCTION dbanon_internal.load_period IS
'Loads what is new of a period, and of the time before it that rows may be late from or the run looks back to. Raises an error if the source is gone,
or if the period has too few rows.';

CREATE OR REPLACE FUNCTION dbanon_internal.compute_period(job dbanon.job, step dbanon.job_period) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run dbanon.run;
BEGIN
    PERFORM dbanon_internal.reap_runs();
    SELECT stored.* INTO run FROM dbanon.run stored WHERE stored.run_id = step.run_id;
    IF run.run_id IS NULL THEN  -- a subject of it was forgotten, or somebody dropped it: another is queued
        RETURN '{"state": "run", "run_id": null, "tries": 0, "error": null, "sqlstate": null}';
    ELSIF run.status IN ('queued', 'running', 'computed') THEN
        RETURN NULL;
    ELSIF run.status = 'verified' THEN
        RETURN jsonb_build_object('state', CASE WHEN job.evaluate AND dbanon_internal.ask_evaluation(run.run_id) THEN 'evaluate' ELSE 'publish' END,
                                  'tries', 0, 'error', NULL, 'sqlstate', NULL);
    ELSIF run.error_kind = 'infeasible' THEN
        RETURN '{"state": "skipped", "skipped_as": "infeasible", "error": null, "sqlstate": null}';
    ELSIF run.status = 'refused' THEN
        RETURN dbanon_internal.fail_step(job, step, 'DA004', format('The attack refused run %s.', run.run_id),
                                         format('See it: SELECT * FROM dbanon.runs WHERE run_id = %s.', run.run_id));
    END IF;
    -- Failed or cancelled.
    RETURN dbanon_internal.fail_step(job, step, 'DA016', coalesce(run.error, ''), NULL, 'run');
END
$$;
COMMENT ON FUNCTION dbanon_internal.compute_period IS 'Looks how far the run of a period is; NULL while it goes on.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_limits(job dbanon.job, run_id bigint, release_id bigint) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    over record;
BEGIN
    SELECT pair.key, pair.value AS most, fig.figures ->> pair.key AS got INTO over
        FROM jsonb_each_text(job.limits) pair
        CROSS JOIN (SELECT run.metrics || coalesce((SELECT ver.figures FROM dbanon.verification ver WHERE ver.run_id = run.run_id
                                                    ORDER BY ver.verification_id DESC LIMIT 1), '{}')
                        || coalesce((SELECT rel.overlap FROM dbanon.release rel WHERE rel.release_id = demand_limits.release_id), '{}') AS figures
                    FROM dbanon.run run WHERE run.run_id = demand_limits.run_id) fig
        WHERE (CASE WHEN dbanon_internal.is_number(fig.figures ->> pair.key)
                    THEN (fig.figures ->> pair.key)::numeric <= pair.value::numeric END) IS NOT TRUE
        ORDER BY pair.key LIMIT 1;
    IF over.key IS NOT NULL THEN
        RAISE EXCEPTION 'The figure % of a run of this job must be at most %. That of run % is %.', over.key, over.most, run_id, coalesce(over.got, 'not known')
            USING ERRCODE = 'DA004', HINT = format('See it: SELECT * FROM dbanon.verification WHERE run_id = %s.', run_id);
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_limits IS
'Refuses a part if a figure of its run, of its attack or of all parts together is above the job''s limit for that figure, or is not known.';

CREATE OR REPLACE FUNCTION dbanon_internal.measure_period(job dbanon.job, step dbanon.job_period) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dbanon_internal.reap_runs();
    IF EXISTS (SELECT FROM dbanon.run run WHERE run.run_id = step.run_id AND run.todo IS NOT NULL) THEN
        RETURN NULL;
    ELSIF EXISTS (SELECT FROM dbanon.evaluation eva WHERE eva.run_id = step.run_id AND eva.evaluated_at >= step.changed_at) THEN
        RETURN '{"state": "publish"}';
    END IF;
    -- Whether it may be published without figures, the policy decides.
    RETURN jsonb_build_object('state', 'publish', 'sqlstate', 'DA016', 'error', coalesce(
        (SELECT run.error FROM dbanon.run run WHERE run.run_id = step.run_id), 'The part was not measured.'));
END
$$;
COMMENT ON FUNCTION dbanon_internal.measure_period IS 'Looks whether the run of a period is measured, and notes why not; NULL while a worker measures it.';

CREATE OR REPLACE FUNCTION dbanon_internal.publish_period(job dbanon.job, step dbanon.job_period) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    outcome record;
    part bigint := (SELECT rel.release_id FROM dbanon.release rel
                    WHERE rel.name = job.name AND rel.series_id IS NOT NULL AND rel.withdrawn_at IS NULL AND rel.bounds <@ step.period
                    ORDER BY 1 LIMIT 1);
BEGIN
    -- It may have been published by hand, or by a job of this name that was removed.
    IF part IS NULL THEN
        IF NOT EXISTS (SELECT FROM dbanon.run run WHERE run.run_id = step.run_id) THEN
            RETURN dbanon_internal.compute_period(job, step);  -- which has another queued
        END IF;
        outcome := dbanon_internal.try_publish(step.run_id, job.name, false, false, NULL, false, job.readers, true);
        IF outcome.state = '57014' THEN
            PERFORM dbanon_internal.raise_refusal(outcome.state, outcome.message, outcome.detail, outcome.hint);
        ELSIF outcome.state IS NOT NULL THEN
            IF outcome.state = 'DA003' AND EXISTS (SELECT FROM dbanon.release rel
                                                   WHERE rel.name = job.name AND rel.series_id IS NULL AND rel.withdrawn_at IS NULL) THEN
                -- It does not grow, and stays until somebody withdraws it.
                RETURN dbanon_internal.fail_step(job, step, outcome.state, outcome.message, format(
                    'Withdraw it, and try again: SELECT dbanon.unpublish(%L); SELECT dbanon.steer_job(%L, ''retry''). Or remove the job, and add it under '
                    'another name.', job.name, job.name), 'held');
            END IF;
            RETURN dbanon_internal.fail_step(job, step, outcome.state, outcome.message, outcome.hint);
        END IF;
        part := (SELECT max(rel.release_id) FROM dbanon.release rel WHERE rel.run_id = step.run_id);
        -- Some figures are known only beside the other parts. An error undoes the publication, which nobody has seen yet.
        PERFORM dbanon_internal.demand_limits(job, step.run_id, part);
    END IF;
    -- A note of why the run was not measured stays.
    RETURN jsonb_build_object('state', 'retain', 'tries', 0, 'release_id', part)
        || CASE WHEN step.sqlstate IS DISTINCT FROM 'DA016' THEN jsonb '{"error": null, "sqlstate": null}' ELSE '{}' END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.publish_period IS
'Publishes the run of a period as a part of the job''s release, unless the period has one. Raises an error if a figure is above its limit or not
known.';

CREATE OR REPLACE FUNCTION dbanon_internal.drop_part_rows(job_id bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s'
AS $$
DECLARE
    job CONSTANT dbanon.job := dbanon_internal.demand_owner(drop_part_rows.job_id);
    runs CONSTANT bigint[] := ARRAY(
        SELECT rel.run_id FROM ONLY dbanon.release rel
        WHERE rel.name = job.name AND upper(rel.bounds) < clock_timestamp() - job.keep_parts
            AND EXISTS (SELECT FROM ONLY dbanon.region reg WHERE reg.run_id = rel.run_id)
        GROUP BY rel.run_id
        -- The run may be published under another name as well.
        HAVING NOT EXISTS (SELECT FROM ONLY dbanon.release other
                           WHERE other.run_id = rel.run_id AND (other.withdrawn_at IS NULL OR other.series_id IS NULL)));
BEGIN
    PERFORM dbanon_internal.delete_rows(ele.run_id) FROM unnest(runs) ele (run_id);
    IF cardinality(runs) > 0 THEN
        INSERT INTO dbanon.audit (action, dataset, release, detail)
            VALUES ('drop_rows', job.dataset, job.name, jsonb_build_object('job_id', job.job_id, 'runs', cardinality(runs)));
    END IF;
    RETURN cardinality(runs);
END
$$;
COMMENT ON FUNCTION dbanon_internal.drop_part_rows IS
'Deletes the rows of runs whose parts are withdrawn and older than their job keeps parts; the runs, their groups and exposures stay. Raises an error
if the login is not the owner.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_needed(job dbanon.job) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT least(lower(n.next), min(lower(p.period))) - n.history
    FROM (SELECT dbanon_internal.find_next_period(job) AS next, dbanon_internal.compute_job_history(job) AS history) n
    LEFT JOIN dbanon.job_period p ON p.job_id = job.job_id AND (
        p.state NOT IN ('done', 'retain', 'skipped')
        -- As dbanon_internal.load_period opens them again.
        OR (p.state = 'skipped' AND p.skipped_as <> 'asked' AND lower(p.period) >= lower(n.next) - greatest(job.lateness, n.history)))
    GROUP BY n.next, n.history
$$;
COMMENT ON FUNCTION dbanon_internal.find_needed IS
'Finds since when a job needs data: for its next period, for those that wait or are held, and for those that were skipped and that late rows may open again.';

CREATE OR REPLACE FUNCTION dbanon_internal.retain_period(job dbanon.job, step dbanon.job_period) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    history CONSTANT interval := dbanon_internal.compute_job_history(job);
    month CONSTANT timestamptz := date_trunc('month', lower(step.period) AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
    task text;
    forgotten_until timestamptz;
    -- What was noted when the part was measured.
    warnings text[] := ARRAY[CASE WHEN step.tries = 0 THEN step.error END];
    state text := CASE WHEN step.tries = 0 THEN step.sqlstate END;
    sentence text;
BEGIN
    forgotten_until := least(upper(step.period) - greatest(job.keep_data, history), (
        SELECT min(dbanon_internal.find_needed(stored)) FROM dbanon.job stored WHERE stored.dataset = job.dataset AND stored.removed_at IS NULL));
    FOREACH task IN ARRAY ARRAY['parts', 'rows', 'data', 'months'] LOOP
        -- Each by itself: what fails today is done tomorrow.
        BEGIN
            IF task = 'parts' THEN
                PERFORM dbanon.unpublish_part(par.name, lower(par.bounds)) FROM (
                    SELECT rel.* FROM dbanon.release rel WHERE rel.name = job.name AND rel.series_id IS NOT NULL AND rel.withdrawn_at IS NULL
                        AND upper(rel.bounds) < clock_timestamp() - job.keep_parts ORDER BY rel.bounds) par;
            ELSIF task = 'rows' THEN
                PERFORM dbanon_internal.drop_part_rows(job.job_id);
            ELSIF task = 'data' AND job.keep_data IS NOT NULL THEN
                PERFORM era.* FROM dbanon.forget_before(job.dataset, forgotten_until) era;
            ELSIF task = 'months' AND EXISTS (
                    SELECT FROM (SELECT tab.bounds, lag(tab.bounds) OVER (ORDER BY lower(tab.bounds)) AS former
                                 FROM dbanon.series ser CROSS JOIN LATERAL dbanon_internal.list_series_tables(ser.series_id) tab
                                 WHERE ser.name = job.name AND ser.withdrawn_at IS NULL) tab
                    WHERE upper(tab.former) = lower(tab.bounds) AND upper(tab.bounds) <= month
                        AND date_trunc('month', lower(tab.former) AT TIME ZONE 'UTC')
                            = date_trunc('month', lower(tab.bounds) AT TIME ZONE 'UTC')) THEN
                PERFORM dbanon.fold_release(job.name, month);
            END IF;
        EXCEPTION WHEN others THEN
            GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, sentence = MESSAGE_TEXT;
            warnings := warnings || CASE WHEN state LIKE 'DA%' THEN sentence ELSE format('The server refused to tidy up (SQLSTATE %s).', state) END;
        END;
    END LOOP;
    RETURN jsonb_build_object('state', 'done', 'error', warnings, 'sqlstate', state);
END
$$;
COMMENT ON FUNCTION dbanon_internal.retain_period IS
'Withdraws parts that are older than the job keeps them, deletes the rows of their runs, forgets old data, and folds the months before; what fails is noted, and tried again after the next period.';

CREATE OR REPLACE FUNCTION dbanon_internal.advance_job(job_id bigint) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    job CONSTANT dbanon.job := dbanon_internal.demand_owner(advance_job.job_id);
    step CONSTANT dbanon.job_period := dbanon_internal.open_period(job.job_id);
    began CONSTANT timestamptz := clock_timestamp();
    changes jsonb;
    state text;
    message text;
    hint text;
    context text;
    foreign_error boolean;
    cursor_name text;
    written dbanon.job_period;
BEGIN
    PERFORM dbanon_internal.demand_own_login();
    IF step.job_id IS NULL OR step.next_at > clock_timestamp() THEN RETURN '{"state": "idle"}'; END IF;
    BEGIN
        changes := CASE step.state
            WHEN 'load' THEN dbanon_internal.load_period(job, step) WHEN 'run' THEN jsonb_build_object(
                'state', 'compute', 'run_id', dbanon_internal.insert_run(  -- what it needs was asked for when the job was added
                    job.dataset, job.method, dbanon_internal.make_period_params(job, step.period), job.algorithm, NULL))
            WHEN 'compute' THEN dbanon_internal.compute_period(job, step) WHEN 'publish' THEN dbanon_internal.publish_period(job, step)
            WHEN 'evaluate' THEN dbanon_internal.measure_period(job, step) ELSE dbanon_internal.retain_period(job, step) END;
        IF step.state = 'load' THEN  -- others read no source, whose triggers COMMIT would fire, and read its cursors, where no handler is left
            BEGIN
                SET CONSTRAINTS ALL IMMEDIATE;
            EXCEPTION WHEN others THEN
                RAISE EXCEPTION 'What functions of the source wrote must keep its constraints. One of them failed with SQLSTATE %.', SQLSTATE
                    USING ERRCODE = 'DA012', DETAIL = 'It is deferred to the end of the transaction.', HINT = 'Have the source call no function that writes.';
            END;
            FOR cursor_name IN SELECT cur.name FROM pg_cursors cur WHERE cur.is_holdable AND cur.creation_time >= statement_timestamp() LOOP
                EXECUTE format('CLOSE %I', cursor_name);
            END LOOP;
        END IF;
    EXCEPTION WHEN others OR query_canceled OR assert_failure THEN
        -- What it did is undone; the period says what was wrong, and other jobs go on.
        GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT, context = PG_EXCEPTION_CONTEXT;
        foreign_error := dbanon_internal.is_foreign_error(state, context);
        IF state = '57014' AND NOT foreign_error THEN
            RAISE;
        END IF;
        changes := dbanon_internal.fail_step(job, step, state, CASE WHEN NOT foreign_error THEN message END, hint);
    END;
    IF changes IS NULL THEN RETURN '{"state": "waiting"}'; END IF;
    written := dbanon_internal.set_period(job.job_id, step.period, changes);
    RETURN jsonb_strip_nulls(jsonb_build_object(
        'job', job.name, 'period', lower(step.period), 'step', step.state, 'state', written.state, 'run_id', written.run_id, 'tries', written.tries,
        'seconds', round(extract(epoch FROM clock_timestamp() - began), 3), 'sqlstate', written.sqlstate, 'error', written.error));
END
$$;
COMMENT ON FUNCTION dbanon_internal.advance_job IS
'Takes the next step of a job, and returns it with its seconds and the state, run, tries, error and SQLSTATE of the period after it; the state waiting
while a run is computed, idle if nothing is to be done now. Raises an error if the login is not the owner.';
