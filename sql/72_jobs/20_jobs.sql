-- Jobs: adding, changing, steering them. What a job is lies in dbanon.job, which only functions of this file write.

-- ---- what may be asked

CREATE OR REPLACE FUNCTION dbanon_internal.check_job(job dbanon.job) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET intervalstyle = 'postgres'
AS $$
DECLARE
    known CONSTANT text[] := ARRAY(
        SELECT a.attname FROM pg_attribute a
        WHERE a.attrelid = 'dbanon_internal.loading'::regclass AND a.attnum > 0 AND a.attname NOT IN ('dataset', 'mode', 'since', 'until')
        ORDER BY a.attname);
    bad record;
BEGIN
    PERFORM dbanon_internal.check_name(job.name);
    PERFORM dbanon_internal.check_zone(coalesce(job.tz, ''));
    SELECT c.* INTO bad FROM (VALUES
        (job.every, 'every', interval '1 minute', interval '1 year'),
        (job.wait, 'wait', interval '0', interval '30 days'), (job.lateness, 'lateness', interval '0', interval '90 days'),
        (coalesce(job.keep_data, interval '1 day'), 'keep_data', interval '1 day', interval '100 years'),
        (coalesce(job.keep_parts, interval '1 day'), 'keep_parts', interval '1 day', interval '100 years'),
        (job.retry, 'retry', interval '1 second', interval '1 day')) c (value, what, low, high)
        WHERE (c.value BETWEEN c.low AND c.high) IS NOT TRUE
            -- Months less days may be more or less than nothing.
            OR least(extract(month FROM c.value) + 12 * extract(year FROM c.value), extract(day FROM c.value), extract(epoch FROM c.value)) < 0 LIMIT 1;
    IF bad.what IS NOT NULL THEN
        RAISE EXCEPTION 'The interval % of a job must be from % to %. Got %.', bad.what, bad.low, bad.high, coalesce(bad.value::text, 'NULL')
            USING ERRCODE = 'DA011', DETAIL = 'Such as ''1 day'', ''6 hours'', ''1 month''.', HINT = format('Give another, or leave out %s => ....', bad.what);
    ELSIF (job.at_least BETWEEN 0 AND 1) IS NOT TRUE OR (job.max_tries BETWEEN 1 AND 1000) IS NOT TRUE
        OR job.on_held IS NULL OR job.on_held NOT IN ('go_on', 'stop') THEN
        RAISE EXCEPTION 'Of a job, at_least must be a number from 0 to 1, max_tries one from 1 to 1,000, and on_held go_on or stop. Got %, % and %.',
                coalesce(job.at_least::text, 'NULL'), coalesce(job.max_tries::text, 'NULL'), coalesce(dbanon_internal.quoted(job.on_held), 'NULL')
            USING ERRCODE = 'DA011', DETAIL = 'They say which periods are too thin, when one is held, and what becomes of the next then.',
                  HINT = 'Leave out what need not be another.';
    ELSIF jsonb_typeof(job.load) IS DISTINCT FROM 'object' OR jsonb_typeof(job.further) IS DISTINCT FROM 'array'
        OR jsonb_typeof(job.limits) IS DISTINCT FROM 'object'
        OR EXISTS (SELECT FROM jsonb_each(job.limits) l WHERE jsonb_typeof(l.value) <> 'number') THEN
        RAISE EXCEPTION 'The load of a job must be a JSON object, its further loads an array of some, and its limits an object of numbers. Got something else.'
            USING ERRCODE = 'DA011', DETAIL = 'A load has the words of dbanon.import_trajectories.',
                  HINT = 'Write it like load => ''{"subject": "person", "time": "at"}'', limits => ''{"left_out": 5}''.';
    END IF;
    SELECT min(l.key COLLATE "C") AS key INTO bad FROM jsonb_object_keys(job.load) l (key) WHERE l.key <> ALL (known);
    IF bad.key IS NOT NULL THEN
        PERFORM dbanon_internal.refuse_name('word of a job''s load', bad.key, known);
    END IF;
    IF EXISTS (SELECT FROM jsonb_array_elements(job.further) f
               WHERE jsonb_typeof(f.value) <> 'object' OR f.value ->> 'kind' IS NULL OR f.value ->> 'kind' NOT IN ('requests', 'quasi_identifiers')
                   OR f.value ->> 'source' IS NULL
                   OR f.value - ARRAY['kind', 'source', 'subject', 'time', 'tz', 'filter', 'columns', 'set_name'] <> '{}'
                   OR (f.value ->> 'kind' = 'requests') <> coalesce(jsonb_typeof(f.value -> 'columns') = 'array', false)) THEN
        RAISE EXCEPTION 'A further load of a job must have a kind, requests or quasi_identifiers, a source, and for requests columns. Got something else.'
            USING ERRCODE = 'DA011', DETAIL = 'It may have subject, time, tz, filter and set_name, as the import of its kind.',
                  HINT = 'Write it like further => ''[{"kind": "requests", "source": "public.asked", "columns": ["poi"]}]''.';
    END IF;
    -- What cannot be read as an option of a load.
    PERFORM dbanon_internal.job_loading(job);
EXCEPTION WHEN invalid_text_representation OR numeric_value_out_of_range OR datatype_mismatch OR invalid_parameter_value THEN
    RAISE EXCEPTION 'The load of a job must have numbers, truth values and lists where dbanon.import_trajectories takes them. Got something else.'
        USING ERRCODE = 'DA011', DETAIL = 'Such as "grid_m": 10, "subject_per_day": true, "bbox": [8, 53, 9, 54].', HINT = 'Correct it and call again.';
END
$$;
COMMENT ON FUNCTION dbanon_internal.check_job(dbanon.job) IS
'Refuses a job that cannot be one, whatever its source holds.';

CREATE OR REPLACE FUNCTION dbanon_internal.check_reach(job dbanon.job, checked jsonb) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    reach CONSTANT interval := dbanon_internal.job_history(job);
BEGIN
    -- What shows people exactly is compared with all that is nearer than this: the next snapshot, or rows that begin this much after a part.
    IF extract(epoch FROM job.every) <= extract(epoch FROM reach) AND EXISTS (
        SELECT FROM dbanon.method m WHERE m.name = job.method
            AND (m.traits ->> 'instant' IS NOT NULL OR m.traits ->> 'oldest' IS NOT NULL AND checked -> 'qid_only' = 'false')) THEN
        RAISE EXCEPTION 'The interval every of a job that publishes snapshots or exact rows must be greater than the % s for which these are compared '
                        'with others. Got % s.', extract(epoch FROM reach)::bigint, extract(epoch FROM job.every)::bigint
            USING ERRCODE = 'DA011', DETAIL = 'That is the greater of max_gap_s and the settle_s of the population.',
                  HINT = 'Give a greater every, or a smaller max_gap_s where that is the greater.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.check_reach(dbanon.job, jsonb) IS
'Refuses a job whose periods follow one another within reach of what they show exactly.';

CREATE OR REPLACE FUNCTION dbanon_internal.job_rivals(job dbanon.job) RETURNS TABLE (title text, alone boolean)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    WITH own AS (
        SELECT d.* FROM dbanon.dataset d WHERE d.name = job.dataset AND d.dropped_at IS NULL
    ), same AS MATERIALIZED (
        -- The datasets with a person of this one. One that is not there yet has the people of its source.
        SELECT w.dataset_id, w.name FROM own w
        UNION ALL
        SELECT d.dataset_id, d.name FROM own w JOIN dbanon.dataset d ON d.population_id = w.population_id AND d.dataset_id <> w.dataset_id
        WHERE NOT w.own_subjects AND NOT d.own_subjects AND d.dropped_at IS NULL AND EXISTS (
            SELECT FROM dbanon_internal.subjects_of(w.dataset_id) s (subject)
            WHERE dbanon_internal.has_subject(d.dataset_id, s.subject))
    )
    SELECT 'job ' || j.name, dbanon_internal.stands_alone(j.method, j.algorithm)
    FROM dbanon.job j
    WHERE j.removed_at IS NULL AND j.name <> job.name
        AND (j.dataset = job.dataset OR j.source = job.source OR j.dataset IN (SELECT s.name FROM same s))
    UNION ALL
    -- What was withdrawn counts, too: who has read it still knows.
    SELECT 'release ' || l.name, bool_or(dbanon_internal.stands_alone(r.method, r.algorithm))
    FROM same s JOIN dbanon.run r ON r.dataset_id = s.dataset_id JOIN dbanon.release l ON l.run_id = r.run_id
    WHERE l.name <> job.name AND dbanon_internal.padded(l.span, l.reach) && tstzrange(job.starts, NULL)
        AND NOT EXISTS (SELECT FROM dbanon.job j WHERE j.name = l.name AND j.removed_at IS NULL)
    GROUP BY l.name
$$;
COMMENT ON FUNCTION dbanon_internal.job_rivals(dbanon.job) IS
'The other jobs and releases that speak of people of a job at times of its periods, and whether they stand alone.';

CREATE OR REPLACE FUNCTION dbanon_internal.period_params(job dbanon.job, period tstzrange) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    -- After a part that shows people exactly, rows begin where that no longer says where they are; on the raster of the parts before.
    SELECT job.params || jsonb_build_object('until', extract(epoch FROM upper(period))::bigint, 'since', extract(epoch FROM lower(period))::bigint
        + coalesce((SELECT ceil(greatest(0, extract(epoch FROM upper(l.bounds) + l.reach - lower(period))) / coalesce(l.step_s, d.grid_s))::bigint
                           * coalesce(l.step_s, d.grid_s)
                    FROM dbanon.release l JOIN dbanon.run r ON r.run_id = l.run_id JOIN dbanon.dataset d ON d.dataset_id = r.dataset_id
                    WHERE l.name = job.name AND l.series_id IS NOT NULL AND l.reach > '0' AND upper(l.bounds) <= lower(period)
                    ORDER BY upper(l.bounds) DESC LIMIT 1), 0))
$$;
COMMENT ON FUNCTION dbanon_internal.period_params(dbanon.job, tstzrange) IS
'The parameters of the run of a period.';

CREATE OR REPLACE FUNCTION dbanon_internal.first_start(job dbanon.job) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    ended CONSTANT timestamptz := (SELECT max(upper(l.bounds)) FROM dbanon.release l WHERE l.name = job.name AND l.withdrawn_at IS NULL);
    first timestamptz;
    midnight timestamptz;
BEGIN
    -- Read even where it is not needed: a source that cannot be loaded is refused when the job is made.
    first := to_timestamp(dbanon_internal.ask_times(job, 'first', NULL, NULL));
    IF ended IS NOT NULL THEN
        RETURN ended;
    END IF;
    first := greatest(least(first, now()), now() - job.keep_parts);
    midnight := date_trunc('day', coalesce(first, now()) AT TIME ZONE job.tz) AT TIME ZONE job.tz;
    RETURN CASE WHEN midnight < first THEN (date_trunc('day', first AT TIME ZONE job.tz) + interval '1 day') AT TIME ZONE job.tz ELSE midnight END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.first_start(dbanon.job) IS
'Where a job begins that was not told: where its release ends, or at the first midnight from which on the source has rows.';

-- ---- writing

CREATE OR REPLACE FUNCTION dbanon_internal.may_act_for(owner text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce((SELECT pg_has_role(session_user, r.oid, CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END)
                     FROM pg_roles r WHERE r.rolname = owner), false)
$$;
COMMENT ON FUNCTION dbanon_internal.may_act_for(text) IS
'Whether this login is a role or may become it.';

CREATE OR REPLACE FUNCTION dbanon_internal.known_job(name text) RETURNS dbanon.job
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    job dbanon.job;
BEGIN
    SELECT j.* INTO job FROM dbanon.job j WHERE j.name = known_job.name AND j.removed_at IS NULL;
    IF job.job_id IS NULL THEN
        RAISE EXCEPTION 'The job must exist. There is none named %.', coalesce(dbanon_internal.quoted(known_job.name), 'NULL')
            USING ERRCODE = 'DA001', DETAIL = 'Looked in dbanon.job.', HINT = 'List the jobs: SELECT * FROM dbanon.jobs.';
    END IF;
    RETURN job;
END
$$;
COMMENT ON FUNCTION dbanon_internal.known_job(text) IS
'The job of a name that was not removed; refuses other names.';

CREATE OR REPLACE FUNCTION dbanon_internal.write_job(job dbanon.job, replace boolean) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '30s'
AS $$
DECLARE
    old dbanon.job;
    drawn bigint;
    covered timestamptz;
BEGIN
    SELECT j.* INTO old FROM dbanon.job j WHERE j.name = job.name AND j.removed_at IS NULL FOR UPDATE;
    IF old.job_id IS NOT NULL AND replace IS NOT TRUE THEN
        RAISE EXCEPTION 'No two jobs must have one name. There is a job ''%'' already.', job.name
            USING ERRCODE = 'DA003', DETAIL = 'A job''s name is that of its release.',
                  HINT = 'Choose another, or change that job with replace => true.';
    ELSIF NOT dbanon_internal.may_act_for(job.owner) OR (old.job_id IS NOT NULL AND NOT dbanon_internal.may_act_for(old.owner)
                                                         AND EXISTS (SELECT FROM pg_roles r WHERE r.rolname = old.owner)) THEN
        RAISE EXCEPTION 'A job must be of the login that adds it, or of a role that this login may become. It may not become %.',
                CASE WHEN dbanon_internal.may_act_for(job.owner) THEN old.owner ELSE coalesce(dbanon_internal.quoted(job.owner), 'NULL') END
            USING ERRCODE = 'DA014', DETAIL = 'What the source calls runs with the rights of the owner.', HINT = 'Leave out owner => ..., or add it as that login.';
    END IF;
    IF old.job_id IS NULL THEN
        SELECT n.* INTO STRICT job.job_id FROM nextval(pg_get_serial_sequence('dbanon.job', 'job_id')) n;
        job.created_at := now();
        job.created_by := session_user;
        job.paused := false;
        job.held_by := NULL;
        job.looked_at := NULL;
        job.removed_at := NULL;
        INSERT INTO dbanon.job OVERRIDING SYSTEM VALUE SELECT job.*;
        RETURN job.job_id;
    END IF;
    IF EXISTS (SELECT FROM dbanon.release l WHERE l.name = job.name AND l.series_id IS NOT NULL AND l.withdrawn_at IS NULL)
        AND (job.method, job.algorithm, job.dataset) <> (old.method, old.algorithm, old.dataset) THEN
        RAISE EXCEPTION 'The method, algorithm and dataset of a job must stay while its release is live. Got others for %.', job.name
            USING ERRCODE = 'DA011', DETAIL = 'All parts of a release are alike.', HINT = 'Add another job, under another name.';
    END IF;
    -- Periods that have come stay. The next follows them.
    SELECT max(upper(p.period)) INTO covered FROM dbanon.job_period p WHERE p.job_id = old.job_id;
    UPDATE dbanon.job j SET owner = job.owner, source = job.source, load = job.load, further = job.further, dataset = job.dataset, method = job.method,
            algorithm = job.algorithm, params = job.params, every = job.every, tz = job.tz,
            starts = CASE WHEN (job.every, job.tz) = (old.every, old.tz) AND covered IS NOT NULL THEN old.starts ELSE greatest(job.starts, covered) END,
            wait = job.wait, lateness = job.lateness, at_least = job.at_least, limits = job.limits, keep_data = job.keep_data,
            keep_parts = job.keep_parts, readers = job.readers, retry = job.retry, max_tries = job.max_tries, on_held = job.on_held
        WHERE j.job_id = old.job_id;
    RETURN old.job_id;
END
$$;
COMMENT ON FUNCTION dbanon_internal.write_job(dbanon.job, boolean) IS
'Writes a job that was checked, or another under the name of one, for its owner and those who may become the owner.';

CREATE OR REPLACE FUNCTION dbanon_internal.audit_job() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Neither source nor load: a filter may name people.
    INSERT INTO dbanon.audit (action, dataset, release, detail)
        VALUES (CASE WHEN TG_OP = 'INSERT' THEN 'add_job' WHEN NEW.removed_at IS DISTINCT FROM OLD.removed_at THEN 'remove_job'
                     WHEN NEW.paused AND NOT OLD.paused THEN 'pause_job' WHEN OLD.paused AND NOT NEW.paused THEN 'resume_job' ELSE 'change_job' END,
                NEW.dataset, NEW.name, jsonb_build_object('job_id', NEW.job_id, 'owner', NEW.owner, 'method', NEW.method, 'params', NEW.params));
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.audit_job() IS
'Writes who added, changed, paused, resumed or removed a job.';

CREATE OR REPLACE FUNCTION dbanon.add_job(
    name text, source regclass, load jsonb, method text, params jsonb DEFAULT '{}', algorithm text DEFAULT NULL, dataset text DEFAULT NULL,
    further jsonb DEFAULT '[]', every interval DEFAULT '1 day', tz text DEFAULT 'UTC', starts timestamptz DEFAULT NULL, wait interval DEFAULT '1 hour',
    lateness interval DEFAULT '3 days', at_least real DEFAULT 0.5, limits jsonb DEFAULT '{}', keep_data interval DEFAULT NULL,
    keep_parts interval DEFAULT NULL, readers text[] DEFAULT NULL, retry interval DEFAULT '5 minutes', max_tries integer DEFAULT 10,
    on_held text DEFAULT 'go_on', owner text DEFAULT NULL, replace boolean DEFAULT false)
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    job dbanon.job;
    made bigint;
    bounds tstzrange;
    rivals text;
    alone boolean;
BEGIN
    job := jsonb_populate_record(NULL::dbanon.job, jsonb_build_object('name', name, 'owner', coalesce(owner, session_user), 'load', load,
        'further', coalesce(further, '[]'), 'dataset', coalesce(dataset, name), 'method', method, 'every', every, 'tz', tz, 'wait', wait,
        'lateness', lateness, 'at_least', at_least, 'limits', coalesce(limits, '{}'), 'keep_data', keep_data, 'keep_parts', keep_parts,
        'retry', retry, 'max_tries', max_tries, 'on_held', on_held));
    job.readers := add_job.readers;
    job.starts := add_job.starts;
    job.algorithm := dbanon_internal.checked_algorithm(method, algorithm);
    PERFORM dbanon_internal.check_job(job);
    PERFORM dbanon_internal.chosen_readers(job.name, true, job.readers);
    SELECT format('%I.%I', n.nspname, c.relname) INTO job.source
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = add_job.source;
    -- Each period is a run's since and until.
    IF coalesce(params, '{}') ?| ARRAY['since', 'until'] THEN
        RAISE EXCEPTION 'The parameters of a job must be without since and until. Got them.'
            USING ERRCODE = 'DA011', DETAIL = 'They are those of each period.', HINT = 'Say where the first one begins: starts => ....';
    END IF;
    job.params := coalesce(params, '{}');
    job.starts := coalesce(job.starts, dbanon_internal.first_start(job));
    PERFORM dbanon_internal.ask_times(job, 'any', job.starts, NULL);
    bounds := dbanon_internal.period_from(job.starts, job.every, job.tz, job.starts);
    PERFORM dbanon_internal.check_reach(job, dbanon_internal.check_params(method, job.algorithm, dbanon_internal.period_params(job, bounds)));
    made := dbanon_internal.write_job(job, replace);
    IF (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = job.owner) THEN
        RAISE NOTICE 'The owner of job %, %, is a superuser: functions that its source calls run with all rights.', job.name, job.owner;
    END IF;
    SELECT string_agg(r.title, ', ' ORDER BY r.title), bool_or(r.alone) OR dbanon_internal.stands_alone(job.method, job.algorithm) INTO rivals, alone
        FROM dbanon_internal.job_rivals(job) r;
    IF rivals IS NOT NULL THEN
        RAISE NOTICE 'The people of job % are also published by: %. Of two publications of one time the later is refused %, and its period is held.',
            job.name, rivals, CASE WHEN alone THEN 'where one of the methods stands alone' ELSE 'if too few are left' END;
    END IF;
    PERFORM dbanon_internal.raise_notice(dbanon_internal.index_notice(
        dbanon_internal.job_source(job.source), dbanon_internal.job_loading(job, lower(bounds), upper(bounds))));
    RAISE NOTICE 'Job % begins with the period from % to %, which is due at %.', job.name, lower(bounds), upper(bounds), upper(bounds) + job.wait;
    RETURN made;
END
$$;
COMMENT ON FUNCTION dbanon.add_job(
    text, regclass, jsonb, text, jsonb, text, text, jsonb, interval, text, timestamptz, interval, interval, real, jsonb, interval, interval, text[],
    interval, integer, text, text, boolean) IS
'Says what is to happen every night: what is new in a source is loaded, the period that has ended is computed and published as a part of the release
of the job''s name, and what is older than it is to be is forgotten. A job overrides no refusal: what is refused is held. Sessions that have logged in as its owner
do it: dbanon worker --schedule, or CALL dbanon.run_jobs(). Takes: name, of the job and its release; source, a table or view as in SQL; load, a JSON object of
what dbanon.import_trajectories takes to read it, with the same defaults but tz; method, params and algorithm, as dbanon.submit_run takes them, without since and
until; dataset, where rows go (name); further, an array of objects of other loads of each period: kind (requests or quasi_identifiers), source and what the
import of that kind takes; every, the length of a period, days and more by the clock of tz; tz, the time zone of periods, and of times that name none (UTC); starts, where the first
period begins, otherwise where the release ends or at the first midnight of the source''s rows; wait, how long after its end a period is due; lateness, how long rows of a
period may still come that is not published; at_least, the share of the median of seven periods without which one is thin and waits; limits, the greatest values of
figures of a run, above which it is held; keep_data, after which data are forgotten, but for what the next period needs; keep_parts, after which parts are withdrawn, and the rows of their runs deleted;
readers, as for dbanon.publish; retry, how long after a failure it tries again, doubled each time up to a quarter of every; max_tries, after which a period is held; on_held, whether
later periods go_on or stop; owner, a role that this login may become (this login); replace, to change the job of that name: its periods stay. Returns: its number. Raises: DA001, DA002, DA003 if
there is one of the name, DA011, DA012 and DA014 for its source or owner; notices of what to look at. Example: SELECT dbanon.add_job(''taxi'', ''public.gps'',
load => ''{"subject": "cab", "time": "ts", "x": "lon", "y": "lat"}'', method => ''METHOD'', params => ''{"k": 5}'', tz => ''Europe/Berlin'', keep_data => ''30 days'',
keep_parts => ''1 year'').';

-- ---- steering

CREATE OR REPLACE FUNCTION dbanon.steer_job(name text, action text, since timestamptz DEFAULT NULL, reason text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '10s'
AS $$
DECLARE
    actions CONSTANT text[] := ARRAY['pause', 'resume', 'retry', 'skip', 'remove'];
    job CONSTANT dbanon.job := dbanon_internal.known_job(steer_job.name);
    steered dbanon.job_period[];
    bounds tstzrange;
BEGIN
    IF action IS NULL OR action <> ALL (actions) THEN
        PERFORM dbanon_internal.refuse_name('action on a job', action, actions);
    ELSIF action IN ('pause', 'resume', 'remove') THEN
        IF action = 'remove' AND NOT (dbanon_internal.may_act_for(job.owner) OR NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = job.owner)) THEN
            RAISE EXCEPTION 'A job must be removed by its owner. That of % is %.', job.name, job.owner
                USING ERRCODE = 'DA014', DETAIL = 'Every operator may pause it.', HINT = format('SELECT dbanon.steer_job(%L, ''pause'').', job.name);
        END IF;
        UPDATE dbanon.job j SET paused = CASE action WHEN 'remove' THEN j.paused ELSE action = 'pause' END,
                                removed_at = CASE action WHEN 'remove' THEN now() END
            WHERE j.job_id = job.job_id AND (action = 'remove' OR j.paused <> (action = 'pause'));
        RETURN FOUND::integer;
    END IF;
    IF action = 'skip' THEN
        PERFORM dbanon_internal.check_reason('A period that is skipped', reason);
    END IF;
    -- Those that are held, or the one that is named: it may be under way, to come, or skipped.
    bounds := dbanon_internal.next_period(job);
    IF since = lower(bounds) AND upper(bounds) <= now() THEN
        INSERT INTO dbanon.job_period (job_id, period) VALUES (job.job_id, bounds) ON CONFLICT DO NOTHING;
    END IF;
    SELECT array_agg(p) INTO steered FROM (
        SELECT p.* FROM dbanon.job_period p
        WHERE p.job_id = job.job_id
            AND (p.state NOT IN ('done', 'retain')
                 -- Its part was withdrawn: another is compared with it, as with all that was read.
                 OR (action = 'retry' AND p.state = 'done' AND EXISTS (
                    SELECT FROM dbanon.release l WHERE l.release_id = p.release_id AND l.withdrawn_at IS NOT NULL)))
            AND CASE WHEN steer_job.since IS NULL THEN p.state = 'held' ELSE lower(p.period) = steer_job.since END
        ORDER BY p.period FOR UPDATE) p;
    IF steered IS NULL THEN
        RAISE EXCEPTION 'A period to % must be one that has ended and has no live part. Job % has none%.', action, job.name,
                coalesce(format(' that begins at %s', since), ' that is held')
            USING ERRCODE = 'DA013', DETAIL = 'Periods are named by their beginnings.',
                  HINT = 'List them: SELECT * FROM dbanon.job_runs.';
    END IF;
    UPDATE dbanon.job_period p
        SET state = CASE action WHEN 'skip' THEN 'skipped' ELSE 'load' END, skipped_as = CASE action WHEN 'skip' THEN 'asked' END,
            release_id = NULL, forced = action = 'retry', tries = 0, next_at = clock_timestamp(), sqlstate = NULL, error = NULL, changed_at = clock_timestamp(),
            finished_at = CASE action WHEN 'skip' THEN clock_timestamp() END
        WHERE p.job_id = job.job_id AND p.period IN (SELECT s.period FROM unnest(steered) s);
    INSERT INTO dbanon.audit (action, dataset, release, detail)
        SELECT steer_job.action || '_period', job.dataset, job.name, jsonb_strip_nulls(jsonb_build_object(
            'job_id', job.job_id, 'since', lower(s.period), 'until', upper(s.period), 'reason', steer_job.reason)) FROM unnest(steered) s ORDER BY s.period;
    RETURN cardinality(steered);
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'Job % is at work on the period, and nothing was changed.', steer_job.name
        USING ERRCODE = 'DA013', DETAIL = 'A step of it has not ended within 10 seconds.', HINT = 'Try again later.';
END
$$;
COMMENT ON FUNCTION dbanon.steer_job(text, text, timestamptz, text) IS
'Pauses, resumes or removes a job, or decides about periods of it. Takes: name; action: pause: no new step is begun; resume; remove: the job ends, and its periods, data and
release stay; retry: the period is loaded and computed again, as it is, however few rows the source has, also if its part was withdrawn; skip: it is not published; since, the beginning of the period to retry or
skip: all that are held, unless given; reason, for skip, in three words or more, which is recorded. Returns: how many jobs or periods it changed. Raises: DA001; DA002; DA011; DA013 if
there is no such period, or it is being worked on; DA014 if another login removes it than its owner. Example: SELECT dbanon.steer_job(''taxi'', ''skip'', ''2026-11-20'', ''the clocks were wrong'').';
