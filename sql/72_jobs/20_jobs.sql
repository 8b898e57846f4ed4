-- Jobs: adding, changing, steering them. What a job is lies in dbanon.job, which only functions of this file write.

-- ---- what may be asked

CREATE OR REPLACE FUNCTION dbanon_internal.fits_interval(value interval, low interval, high interval) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- Months less days may be more or less than nothing.
    SELECT coalesce(value BETWEEN low AND high
        AND least(extract(month FROM value) + 12 * extract(year FROM value), extract(day FROM value), extract(epoch FROM value)) >= 0, false)
$$;
COMMENT ON FUNCTION dbanon_internal.fits_interval IS 'Whether an interval is between two others, and goes forward in each of its parts.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_job_arguments(job dbanon.job) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET intervalstyle = 'postgres' AS $$
DECLARE
    bad record;
BEGIN
    SELECT arg.* INTO bad FROM (VALUES
        ('every', dbanon_internal.fits_interval(job.every, '1 minute', '1 year'), 'an interval from 1 minute to 1 year', job.every::text),
        ('wait', dbanon_internal.fits_interval(job.wait, '0', '30 days'), 'an interval from 0 to 30 days', job.wait::text),
        ('lateness', dbanon_internal.fits_interval(job.lateness, '0', '90 days'), 'an interval from 0 to 90 days', job.lateness::text),
        ('keep_data', job.keep_data IS NULL OR dbanon_internal.fits_interval(job.keep_data, '1 day', '100 years'),
         'an interval from 1 day to 100 years', job.keep_data::text),
        ('keep_parts', job.keep_parts IS NULL OR dbanon_internal.fits_interval(job.keep_parts, '1 day', '100 years'),
         'an interval from 1 day to 100 years', job.keep_parts::text),
        ('retry', dbanon_internal.fits_interval(job.retry, '1 second', '1 day'), 'an interval from 1 second to 1 day', job.retry::text),
        -- A mistyped year would let a job sleep, or work, for centuries.
        ('starts', job.starts IS NULL OR job.starts BETWEEN '1970-01-01 00:00Z' AND now() + interval '1 year',
         'a time from 1970 on, and at most a year ahead', job.starts::text),
        ('at_least', job.at_least BETWEEN 0 AND 1, 'a number from 0 to 1', job.at_least::text),
        ('max_tries', job.max_tries BETWEEN 1 AND 1000, 'a whole number from 1 to 1,000', job.max_tries::text),
        ('on_held', job.on_held IN ('go_on', 'stop'), 'go_on or stop', dbanon_internal.quote_text(job.on_held)),
        ('params', jsonb_typeof(job.params) = 'object', 'a JSON object such as ''{"k": 5}''', 'something else'),
        ('params', NOT job.params ?| ARRAY['since', 'until'], 'without since and until, which are those of each period', 'one of them'),
        ('load', jsonb_typeof(job.load) = 'object', 'a JSON object such as ''{"trip": "journey", "time_column": "at"}''', 'something else'),
        ('further', jsonb_typeof(job.further) = 'array', 'a JSON array of objects', 'something else'),
        ('limits', jsonb_typeof(job.limits) = 'object' AND NOT jsonb_path_exists(job.limits, '$.* ? (@.type() != "number")'),
         'a JSON object of numbers such as ''{"requests_of_few_over_parts": 5}''', 'something else')) arg (argument, holds, must, got)
        WHERE arg.holds IS NOT TRUE LIMIT 1;
    IF bad.argument IS NOT NULL THEN
        RAISE EXCEPTION 'The argument % of a job must be %. Got %.', bad.argument, bad.must, coalesce(bad.got, 'NULL')
            USING ERRCODE = 'DA011', DETAIL = 'The comment of dbanon.add_job explains each argument.',
                  HINT = format('Give another %s => ..., or leave it out.', bad.argument);
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_job_arguments IS
'Refuses a job of which an argument is of the wrong kind or outside its limits, and names that one.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_load_words(load jsonb) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known CONSTANT text[] := ARRAY(
        SELECT att.attname FROM pg_attribute att
        WHERE att.attrelid = 'dbanon_internal.loading'::regclass AND att.attnum > 0 AND att.attname NOT IN ('dataset', 'mode', 'since', 'until')
        UNION ALL SELECT 'read_dsn' ORDER BY 1);
    word record;
BEGIN
    FOR word IN SELECT pair.key, pair.value FROM jsonb_each(load) pair ORDER BY pair.key COLLATE "C" LOOP
        IF word.key <> ALL (known) THEN
            PERFORM dbanon_internal.refuse_name('word of a job''s load', word.key, known);
        -- Every operator may read it, and a worker follows it: no password, and no server that its machine does not know.
        ELSIF word.key = 'read_dsn' AND (word.value #>> '{}' ~ '^service=[A-Za-z0-9_.-]{1,60}$') IS NOT TRUE THEN
            RAISE EXCEPTION 'The word read_dsn of a job''s load must be service=NAME. Got something else.'
                USING ERRCODE = 'DA011', DETAIL = 'Jobs hold no passwords: the file of services of the worker''s machine explains the name.',
                      HINT = 'Write it like load => ''{"read_dsn": "service=replica"}''.';
        END IF;
    END LOOP;
    PERFORM jsonb_populate_record(NULL::dbanon_internal.loading, load);
EXCEPTION WHEN invalid_text_representation OR numeric_value_out_of_range OR datatype_mismatch OR invalid_parameter_value THEN
    -- Which word it is, each says by itself.
    FOR word IN SELECT pair.key, pair.value, count(*) OVER () AS words FROM jsonb_each(load) pair ORDER BY pair.key COLLATE "C" LOOP
        IF word.words > 1 THEN
            PERFORM dbanon_internal.demand_load_words(jsonb_build_object(word.key, word.value));
            CONTINUE;
        END IF;
        RAISE EXCEPTION 'The word % of a job''s load must be of the type %. Got something else.', word.key, (
                SELECT format_type(att.atttypid, att.atttypmod) FROM pg_attribute att
                WHERE att.attrelid = 'dbanon_internal.loading'::regclass AND att.attname = word.key)
            USING ERRCODE = 'DA011', DETAIL = 'A load has the words of dbanon.import_trajectories.',
                  HINT = 'Write it like load => ''{"grid_m": 10, "subject_per_day": true, "bbox": [8, 53, 9, 54]}''.';
    END LOOP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_load_words IS 'Refuses words of a load that dbanon.import_trajectories does not take, or not so.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_import_words(kind text) RETURNS TABLE (word text, listed boolean, needed boolean)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    -- Those that a job says for itself are left out.
    SELECT p.proargnames[a.place], y.typcategory = 'A', a.place <= p.pronargs - p.pronargdefaults
    FROM pg_proc p
    CROSS JOIN LATERAL unnest(p.proargtypes::oid[]) WITH ORDINALITY a (type, place)
    JOIN pg_type y ON y.oid = a.type
    WHERE p.pronamespace = 'dbanon'::regnamespace AND p.proname = 'import_' || kind
        AND p.proargnames[a.place] NOT IN ('dataset', 'mode', 'replace', 'since', 'until')
$$;
COMMENT ON FUNCTION dbanon_internal.list_import_words IS
'The arguments of an import that a further load of a job may have: which are lists, and which must be given.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_further_loads(further jsonb) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    example CONSTANT text := 'Write it like further => ''[{"kind": "requests", "source": "public.asked", "columns": ["poi"]}]''.';
    asked jsonb;
    bad record;
BEGIN
    FOR asked IN SELECT ele.value FROM jsonb_array_elements(further) ele LOOP
        IF coalesce(asked ->> 'kind', '') NOT IN ('requests', 'quasi_identifiers') THEN
            RAISE EXCEPTION 'Each element of further must be a JSON object with the kind requests or quasi_identifiers. Got another.'
                USING ERRCODE = 'DA011', DETAIL = 'Its other words are arguments of dbanon.import_requests or dbanon.import_quasi_identifiers.',
                      HINT = example;
        END IF;
        SELECT pair.key, word.word, word.listed INTO bad
            FROM jsonb_each(asked - 'kind') pair
            FULL JOIN dbanon_internal.list_import_words(asked ->> 'kind') word ON word.word = pair.key
            WHERE word.word IS NULL OR (pair.key IS NULL AND word.needed) OR jsonb_typeof(pair.value) = 'object'
                OR word.listed <> (jsonb_typeof(pair.value) = 'array')
            ORDER BY coalesce(pair.key, word.word) COLLATE "C" LIMIT 1;
        IF bad.word IS NOT NULL THEN
            RAISE EXCEPTION 'In further, % must have the word %, which is %. Got %.', asked ->> 'kind', bad.word,
                    CASE WHEN bad.listed THEN 'a list' ELSE 'no list' END, CASE WHEN bad.key IS NULL THEN 'none' ELSE 'something else' END
                USING ERRCODE = 'DA011', DETAIL = format('It is an argument of dbanon.import_%s.', asked ->> 'kind'), HINT = example;
        ELSIF bad.key IS NOT NULL THEN
            PERFORM dbanon_internal.refuse_name(format('word of %s in further', asked ->> 'kind'), bad.key,
                                                ARRAY(SELECT word.word FROM dbanon_internal.list_import_words(asked ->> 'kind') word));
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_further_loads IS 'Refuses further loads that no import does, or with words that their import does not take.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_known_figures(job dbanon.job) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- What the family says of itself, what is counted over all parts, and what its last run had.
    known CONSTANT text[] := ARRAY(
        SELECT nam.name FROM dbanon.method met CROSS JOIN LATERAL (
            SELECT key.key FROM jsonb_object_keys(met.traits -> 'notices') key (key) WHERE key.key <> 'left_out'
            UNION SELECT pair.value FROM jsonb_each_text(met.traits -> 'totals') pair
            UNION SELECT 'requests_of_few_over_parts'
            UNION SELECT pair.key FROM (
                SELECT run.metrics || ver.figures AS figures FROM dbanon.verification ver JOIN dbanon.run run ON run.run_id = ver.run_id
                WHERE run.method = met.name ORDER BY ver.verification_id DESC LIMIT 1) fig
            CROSS JOIN LATERAL jsonb_each(fig.figures) pair WHERE jsonb_typeof(pair.value) = 'number') nam (name)
        WHERE met.name = job.method);
    unknown CONSTANT text := (SELECT min(key.key COLLATE "C") FROM jsonb_object_keys(job.limits) key (key) WHERE key.key <> ALL (known));
BEGIN
    IF unknown IS NOT NULL THEN
        PERFORM dbanon_internal.refuse_name(format('figure for limits of %s', job.method), unknown, known);
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_known_figures IS 'Refuses limits on figures that no run of the method has, which would hold every period.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_valid_job(job dbanon.job) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dbanon_internal.demand_release_name(job.name);
    PERFORM dbanon_internal.demand_zone(coalesce(job.tz, ''));
    PERFORM dbanon_internal.demand_algorithm(job.method, job.algorithm);
    PERFORM dbanon_internal.demand_job_arguments(job);
    PERFORM dbanon_internal.demand_load_words(job.load);
    PERFORM dbanon_internal.demand_further_loads(job.further);
    PERFORM dbanon_internal.demand_known_figures(job);
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_valid_job IS 'Refuses a job that cannot be one, whatever its source holds.';

-- ---- what each period would be refused for

CREATE OR REPLACE FUNCTION dbanon_internal.demand_job_release(job dbanon.job) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    live CONSTANT dbanon.series := dbanon_internal.find_live_series(job.name);
    readers CONSTANT text[] := dbanon_internal.choose_readers(job.name, true, job.readers);
    bad record;
BEGIN
    IF live.series_id IS NULL THEN
        IF EXISTS (SELECT FROM dbanon.release rel WHERE rel.name = job.name AND rel.withdrawn_at IS NULL) THEN
            RAISE EXCEPTION 'The release of a job must be one that grows. There is a live release % that does not.', job.name
                USING ERRCODE = 'DA003', DETAIL = 'A job publishes each period as a part of the release of its name.',
                      HINT = format('Choose another name, or withdraw that release first: SELECT dbanon.unpublish(%L).', job.name);
        END IF;
        PERFORM dbanon_internal.demand_free_name(job.name, false, true);
        RETURN;
    END IF;
    SELECT dif.* INTO bad FROM (VALUES
        ('method', live.method, job.method), ('algorithm', live.algorithm, job.algorithm),
        ('readers', coalesce(array_to_string(live.readers, ', '), 'all analysts'), coalesce(array_to_string(readers, ', '), 'all analysts')),
        ('dataset', (SELECT stored.dataset FROM dbanon.job stored WHERE stored.job_id = job.job_id), job.dataset)) dif (argument, has, got)
        WHERE dif.has <> dif.got LIMIT 1;
    IF bad.argument IS NOT NULL THEN
        RAISE EXCEPTION 'The argument % of a job must stay while its release is live. That of % is %. Got %.', bad.argument, job.name, bad.has,
                dbanon_internal.quote_text(bad.got)
            USING ERRCODE = 'DA011', DETAIL = 'All parts of a release are alike.', HINT = 'Add another job, under another name.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_job_release IS 'Refuses a job whose release could not be published, or take no part of it.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_further_statement(job dbanon.job, asked jsonb, since timestamptz, until timestamptz) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- By the names of the import's own arguments, which has a default for what is not said; but times that name no zone are of the job's.
    SELECT format('SELECT i.load_id FROM dbanon.import_%s(source => %s::pg_catalog.oid, %s) i', asked ->> 'kind',
                  dbanon_internal.demand_job_source(asked ->> 'source')::oid, string_agg(format('%I => %s', w.key, CASE jsonb_typeof(w.value)
                      WHEN 'array' THEN format('%L::text[]', ARRAY(SELECT jsonb_array_elements_text(w.value)))
                      ELSE format('%L', w.value #>> '{}') END), ', '))
    FROM jsonb_each(jsonb_build_object('tz', job.tz) || (asked - ARRAY['kind', 'source'])
                    || jsonb_build_object('dataset', job.dataset, 'mode', 'new', 'since', since, 'until', until)) w
$$;
COMMENT ON FUNCTION dbanon_internal.build_further_statement IS
'Writes the call of the import that does a further load of a job, for a span of time. Raises an error if the source is gone.';

CREATE OR REPLACE FUNCTION dbanon_internal.try_loads(job dbanon.job) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET client_min_messages = 'error'
SET lock_timeout = '10s' AS $$
DECLARE
    until CONSTANT timestamptz := job.starts + interval '1 microsecond';
    asked dbanon_internal.loading := dbanon_internal.make_job_loading(job, job.starts, until);
    further jsonb;
    ignored bigint;
BEGIN
    asked.crs := coalesce(asked.crs, CASE WHEN asked.geom IS NULL THEN 'EPSG:4326' ELSE dbanon_internal.find_source_crs(
        job.source, asked.geom, dbanon_internal.build_chosen_rows(job.source, NULL, NULL, dbanon_internal.make_job_loading(job))) END);
    -- The imports themselves refuse what they would refuse each night. They read next to nothing, and what they wrote is undone.
    BEGIN
        PERFORM dbanon_internal.begin_load(asked);
        IF job.further <> '[]' AND dbanon_internal.makes_dataset(asked) THEN
            PERFORM dbanon_internal.write_dataset(asked, coalesce(asked.srid, 32631)::integer);
        END IF;
        FOR further IN SELECT ele.value FROM jsonb_array_elements(job.further) ele LOOP
            EXECUTE dbanon_internal.build_further_statement(job, further, job.starts, until) INTO ignored;
        END LOOP;
        RAISE EXCEPTION USING ERRCODE = 'DA018';
    EXCEPTION
        WHEN SQLSTATE 'DA018' THEN
            NULL;
        WHEN lock_not_available THEN
            RAISE EXCEPTION 'Dataset % is being loaded, and the job was neither added nor changed.', dbanon_internal.quote_text(job.dataset)
                USING ERRCODE = 'DA013', DETAIL = 'The load has not ended within 10 seconds.', HINT = 'Try again later.';
    END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.try_loads IS 'Refuses a job whose loads would be refused: begins each and undoes it.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_reach(job dbanon.job, checked jsonb) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    reach CONSTANT interval := dbanon_internal.compute_job_history(job);
BEGIN
    -- What shows people exactly is compared with all that is nearer than this: the next snapshot, or rows that begin this much after a part.
    IF extract(epoch FROM job.every) <= extract(epoch FROM reach) AND EXISTS (
        SELECT FROM dbanon.method met WHERE met.name = job.method
            AND (met.traits ->> 'instant' IS NOT NULL OR met.traits ->> 'oldest' IS NOT NULL AND checked -> 'qid_only' = 'false')) THEN
        RAISE EXCEPTION 'The argument every of a job that publishes snapshots or exact rows must be greater than the % s for which these are compared '
                        'with others. Got % s.', extract(epoch FROM reach)::bigint, extract(epoch FROM job.every)::bigint
            USING ERRCODE = 'DA011', DETAIL = 'That is the greater of max_gap_s and the settle_s of the population.',
                  HINT = 'Give a greater every, or a smaller max_gap_s where that is the greater.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_reach IS 'Refuses a job whose periods follow one another within reach of what they show exactly.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_job_needs(job dbanon.job, checked jsonb) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    about dbanon.dataset;
    given CONSTANT text[] := ARRAY(SELECT ele.value ->> 'kind' FROM jsonb_array_elements(job.further) ele)
        || ARRAY['people', CASE WHEN job.allow_no_requests THEN 'requests' ELSE '' END];
BEGIN
    SELECT dat.* INTO about FROM dbanon.dataset dat WHERE dat.name = job.dataset AND dat.dropped_at IS NULL;
    about.name := job.dataset;
    -- Places and quasi-identifiers can be loaded once the first load has made the dataset. Without them there is no run.
    PERFORM dbanon_internal.demand_needs(about, job.method, checked - ARRAY['since', 'until', 'start', 'at'], given
        || CASE WHEN about.dataset_id IS NULL THEN ARRAY['sites', 'cells', 'pois', 'quasi_identifiers'] END);
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_job_needs IS
'Refuses a job whose dataset lacks at all times what the method needs to promise anything, unless it comes with the periods.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_window_bounds(job dbanon.job) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    algorithm CONSTANT text := dbanon_internal.demand_algorithm(job.method, job.algorithm);
    params CONSTANT jsonb := dbanon_internal.complete_params(job.method, algorithm, job.params);
    window_s CONSTANT integer := dbanon_internal.find_window_s(job.method, algorithm, params);
    grid_s CONSTANT integer := coalesce(params ->> 'grid_s', params ->> 'step_s', '1');
    begins timestamptz;
    bad timestamptz;
BEGIN
    IF window_s IS NULL THEN RETURN; END IF;
    begins := lower(dbanon_internal.find_next_period(job));
    -- Ten months see both changes of the clock. Bounds less than a day apart follow no clock: two of them decide.
    SELECT min(bou.bound) INTO bad
        FROM (SELECT begins AS bound
              UNION ALL
              SELECT fin.after
              FROM generate_series(begins, begins + CASE WHEN job.every < '1 day' THEN job.every ELSE '10 months' END, job.every) mom
              CROSS JOIN LATERAL dbanon_internal.find_bounds(job.starts, job.every, job.tz, mom) fin) bou
        WHERE mod(extract(epoch FROM bou.bound), window_s) <> 0;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION 'The periods of a job must begin and end at multiples of its window_s, % s since 1970 UTC. In % one does at %.', window_s, job.tz,
                to_char(bad AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
            USING ERRCODE = 'DA011', DETAIL = 'Two periods would have a part of one window each.',
                  HINT = CASE WHEN mod(900, grid_s) = 0 THEN 'Give params => ''{"window_s": 900}'', which divides the days of every time zone, or another '
                              'starts or every.'
                         ELSE 'Give a grid_s and a window_s that divide 900, as a day is a multiple of that in every time zone.' END;
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_window_bounds IS 'Refuses a job of which a period would cut a window, in the next ten months.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_rivals(job dbanon.job) RETURNS TABLE (title text, alone boolean)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    WITH own AS (
        SELECT dat.* FROM dbanon.dataset dat WHERE dat.name = job.dataset AND dat.dropped_at IS NULL
    ), same AS MATERIALIZED (
        -- The datasets with a person of this one. One that is not there yet has the people of its source.
        SELECT own.dataset_id, own.name FROM own
        UNION ALL
        SELECT dat.dataset_id, dat.name FROM own JOIN dbanon.dataset dat ON dat.population_id = own.population_id AND dat.dataset_id <> own.dataset_id
        WHERE NOT own.own_subjects AND NOT dat.own_subjects AND dat.dropped_at IS NULL AND EXISTS (
            SELECT FROM dbanon_internal.list_subjects(own.dataset_id) sub (subject)
            WHERE dbanon_internal.has_subject(dat.dataset_id, sub.subject))
    )
    SELECT 'job ' || stored.name, dbanon_internal.stands_alone(stored.method, stored.algorithm)
    FROM dbanon.job stored
    WHERE stored.removed_at IS NULL AND stored.name <> job.name
        AND (stored.dataset = job.dataset OR stored.source = job.source OR stored.dataset IN (SELECT same.name FROM same))
    UNION ALL
    -- What was withdrawn counts, too: who has read it still knows.
    SELECT 'release ' || rel.name, bool_or(dbanon_internal.stands_alone(run.method, run.algorithm))
    FROM same JOIN dbanon.run run ON run.dataset_id = same.dataset_id JOIN dbanon.release rel ON rel.run_id = run.run_id
    WHERE rel.name <> job.name AND dbanon_internal.pad_period(rel.span, rel.reach) && tstzrange(job.starts, NULL)
        AND NOT EXISTS (SELECT FROM dbanon.job stored WHERE stored.name = rel.name AND stored.removed_at IS NULL)
    GROUP BY rel.name
$$;
COMMENT ON FUNCTION dbanon_internal.find_rivals IS
'The other jobs and releases that speak of people of a job at times of its periods, and whether they stand alone.';

CREATE OR REPLACE FUNCTION dbanon_internal.make_period_params(job dbanon.job, period tstzrange) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- After a part that shows people exactly, rows begin where that no longer says where they are; on the raster of the parts before.
    SELECT job.params || jsonb_build_object('until', extract(epoch FROM upper(period))::bigint, 'since', extract(epoch FROM lower(period))::bigint
        + coalesce((SELECT ceil(greatest(0, extract(epoch FROM upper(l.bounds) + l.reach - lower(period))) / coalesce(l.step_s, d.grid_s))::bigint
                           * coalesce(l.step_s, d.grid_s)
                    FROM dbanon.release l JOIN dbanon.run r ON r.run_id = l.run_id JOIN dbanon.dataset d ON d.dataset_id = r.dataset_id
                    WHERE l.name = job.name AND l.series_id IS NOT NULL AND l.reach > '0' AND upper(l.bounds) <= lower(period)
                    ORDER BY upper(l.bounds) DESC LIMIT 1), 0))
$$;
COMMENT ON FUNCTION dbanon_internal.make_period_params IS 'The parameters of the run of a period.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_start(job dbanon.job) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ended CONSTANT timestamptz := (SELECT max(upper(rel.bounds)) FROM dbanon.release rel WHERE rel.name = job.name AND rel.withdrawn_at IS NULL);
    first timestamptz;
    midnight timestamptz;
BEGIN
    -- Read even where it is not needed: a source that cannot be loaded is refused when the job is made.
    first := to_timestamp(dbanon_internal.ask_times(job, 'first', NULL, NULL));
    IF ended IS NOT NULL THEN RETURN ended; END IF;
    first := greatest(least(first, now()), now() - job.keep_parts, '1970-01-01 00:00Z');
    midnight := date_trunc('day', coalesce(first, now()) AT TIME ZONE job.tz) AT TIME ZONE job.tz;
    RETURN CASE WHEN midnight < first THEN (date_trunc('day', first AT TIME ZONE job.tz) + interval '1 day') AT TIME ZONE job.tz ELSE midnight END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_start IS
'Where a job begins that was not told: where its release ends, or at the first midnight from which on the source has rows.';

-- ---- writing

CREATE OR REPLACE FUNCTION dbanon_internal.may_act_for(owner text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT pg_has_role(session_user, r.oid, CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END)
                     FROM pg_roles r WHERE r.rolname = owner), false)
$$;
COMMENT ON FUNCTION dbanon_internal.may_act_for IS 'Whether this login is a role or may become it.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_job(name text) RETURNS dbanon.job
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    job dbanon.job;
BEGIN
    SELECT j.* INTO job FROM dbanon.job j WHERE j.name = demand_job.name AND j.removed_at IS NULL;
    IF job.job_id IS NULL THEN
        RAISE EXCEPTION 'The job must exist. There is none named %.', coalesce(dbanon_internal.quote_text(demand_job.name), 'NULL')
            USING ERRCODE = 'DA001', DETAIL = 'Looked in dbanon.job.', HINT = 'List the jobs: SELECT * FROM dbanon.jobs.';
    END IF;
    RETURN job;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_job IS 'The job of a name that was not removed; refuses other names.';

CREATE OR REPLACE FUNCTION dbanon_internal.write_job(job dbanon.job) RETURNS dbanon.job
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '30s'
AS $$
DECLARE
    old dbanon.job;
    covered timestamptz;
    refused text;
    changes text;
BEGIN
    -- Operators may call it with what dbanon.add_job has not seen.
    PERFORM dbanon_internal.demand_valid_job(job);
    PERFORM dbanon_internal.demand_window_bounds(job);
    PERFORM dbanon_internal.complete_params(
        job.method, job.algorithm, dbanon_internal.make_period_params(job, dbanon_internal.find_next_period(job)));
    SELECT stored.* INTO old FROM dbanon.job stored WHERE stored.name = job.name AND stored.removed_at IS NULL FOR UPDATE;
    refused := CASE WHEN NOT dbanon_internal.may_act_for(job.owner) THEN coalesce(job.owner, '')
                    WHEN NOT dbanon_internal.may_act_for(old.owner)
                        AND EXISTS (SELECT FROM pg_roles rol WHERE rol.rolname = old.owner) THEN old.owner END;
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION 'The owner of a job must be the login that adds or changes it, or a role that this login may become. It may not become %.',
                dbanon_internal.quote_text(refused)
            USING ERRCODE = 'DA014', DETAIL = 'Functions that the source calls run with the rights of the owner.',
                  HINT = 'Call it as that login. If the role no longer exists, give the job another owner: owner => ....';
    END IF;
    job.job_id := coalesce(old.job_id, nextval(pg_get_serial_sequence('dbanon.job', 'job_id')));
    job.created_at := coalesce(old.created_at, now());
    job.created_by := coalesce(old.created_by, session_user);
    job.paused := coalesce(old.paused, false);
    job.held_by := old.held_by;
    job.looked_at := old.looked_at;
    job.removed_at := NULL;
    IF old.job_id IS NULL THEN
        INSERT INTO dbanon.job OVERRIDING SYSTEM VALUE SELECT job.*;
        RAISE NOTICE 'Job % is added.', job.name;
        RETURN job;
    END IF;
    -- Periods that have come stay. The next follows them. A start before them says nothing new, however often it is given.
    SELECT max(upper(jpe.period)) INTO covered FROM dbanon.job_period jpe WHERE jpe.job_id = old.job_id;
    job.starts := CASE WHEN (job.every::text, job.tz) = (old.every::text, old.tz) AND greatest(job.starts, old.starts) <= covered THEN old.starts
                       ELSE greatest(job.starts, covered) END;
    -- As JSON, since 24 hours are not 1 day here.
    SELECT string_agg(was.key, ', ' ORDER BY was.key) INTO changes FROM jsonb_each(to_jsonb(old)) was WHERE was.value <> to_jsonb(job) -> was.key;
    RAISE NOTICE 'Job % is %.', job.name, coalesce('changed: ' || changes, 'unchanged');
    IF changes IS NULL THEN RETURN job; END IF;
    -- The whole row, whatever columns it has.
    EXECUTE (SELECT format('UPDATE dbanon.job j SET (%1$s) = (SELECT %1$s FROM (SELECT ($1).*) n) WHERE j.job_id = ($1).job_id',
                           string_agg(quote_ident(att.attname), ', ' ORDER BY att.attnum))
             FROM pg_attribute att
             WHERE att.attrelid = 'dbanon.job'::regclass AND att.attnum > 0 AND NOT att.attisdropped AND att.attname <> 'job_id') USING job;
    RETURN job;
END
$$;
COMMENT ON FUNCTION dbanon_internal.write_job IS
'Writes a new job, or what has become of the one of that name, for its owner and logins that may become the owner; returns it as it is then. Raises an
error if the job is not valid, or if the login may not become its owner.';

CREATE OR REPLACE FUNCTION dbanon_internal.audit_job() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Neither source nor load: a filter may name people.
    INSERT INTO dbanon.audit (action, dataset, release, detail)
        VALUES (CASE WHEN TG_OP = 'INSERT' THEN 'add_job' WHEN NEW.removed_at IS DISTINCT FROM OLD.removed_at THEN 'remove_job'
                     WHEN NEW.paused AND NOT OLD.paused THEN 'pause_job' WHEN OLD.paused AND NOT NEW.paused THEN 'resume_job' ELSE 'change_job' END,
                NEW.dataset, NEW.name, jsonb_build_object('job_id', NEW.job_id, 'owner', NEW.owner, 'method', NEW.method, 'params', dbanon_internal.strip_texts(NEW.params)));
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.audit_job IS 'Writes who added, changed, paused, resumed or removed a job.';

CREATE OR REPLACE FUNCTION dbanon_internal.fill_job(given jsonb, replace boolean) RETURNS dbanon.job
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET intervalstyle = 'postgres'
SET lock_timeout = '10s' AS $$
DECLARE
    -- Of a new job, where nothing is said. What is not here may be NULL, which means all analysts or never.
    defaults CONSTANT jsonb := '{"load": {}, "params": {}, "further": [], "every": "1 day", "tz": "UTC", "wait": "1 hour", "lateness": "3 days",
        "at_least": 0.5, "limits": {}, "retry": "5 minutes", "max_tries": 10, "on_held": "go_on", "evaluate": false, "allow_no_requests": false}';
    settings CONSTANT jsonb := (SELECT jsonb_object_agg(pair.key, pair.value) FROM jsonb_each(given) pair WHERE pair.value <> 'null');
    missing CONSTANT text := (SELECT string_agg(ele.name, ', ') FROM unnest(ARRAY['source', 'load', 'method']) ele (name) WHERE NOT settings ? ele.name);
    job dbanon.job;
BEGIN
    -- Of two calls for one name the second sees what the first has written.
    PERFORM pg_advisory_xact_lock(hashtextextended('dbanon.job ' || (settings ->> 'name'), 0));
    SELECT stored.* INTO job FROM dbanon.job stored WHERE stored.name = settings ->> 'name' AND stored.removed_at IS NULL;
    IF job.job_id IS NOT NULL AND replace IS NOT TRUE THEN
        RAISE EXCEPTION 'Each job must have a name that no other job has. There is a job ''%'' already.', job.name
            USING ERRCODE = 'DA003', DETAIL = 'A job''s name is that of its release.',
                  HINT = 'Choose another name, or change that job with replace => true.';
    ELSIF job.job_id IS NULL AND missing IS NOT NULL THEN
        RAISE EXCEPTION 'A new job must have a source, a load and a method. There is no job named % yet, and of the three it lacks: %.',
                coalesce(dbanon_internal.quote_text(settings ->> 'name'), 'NULL'), missing
            USING ERRCODE = 'DA011', DETAIL = 'Only values that a job has already can be left out.',
                  HINT = 'Give them, or name a job that is there: SELECT name FROM dbanon.jobs.';
    ELSIF job.job_id IS NULL THEN
        job := jsonb_populate_record(NULL::dbanon.job, defaults || jsonb_build_object('owner', session_user, 'dataset', settings -> 'name'));
    ELSIF settings ->> 'method' <> job.method THEN  -- which has other parameters and algorithms
        job.params := '{}';
        job.algorithm := NULL;
    END IF;
    -- Of load and params each word is an option by itself; null takes it back.
    job := jsonb_populate_record(job, settings || jsonb_strip_nulls(jsonb_build_object(
        'load', job.load || coalesce(settings -> 'load', '{}'), 'params', job.params || coalesce(settings -> 'params', '{}'))));
    job.readers := nullif(job.readers, '{}');
    job.algorithm := dbanon_internal.demand_algorithm(job.method, job.algorithm);
    RETURN job;
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'Job % is being added or changed by another session, and nothing was done.', coalesce(dbanon_internal.quote_text(settings ->> 'name'), 'NULL')
        USING ERRCODE = 'DA013', DETAIL = 'It has not ended within 10 seconds.',
              HINT = 'Try again later. The sessions that hold such locks are in pg_locks: any login may take one.';
END
$$;
COMMENT ON FUNCTION dbanon_internal.fill_job IS
'Makes a job of what was said: the rest of a new one is its default, and of one that is to be changed it stays as it is. Raises an error if the name
is taken, if a new job has no source, load or method, or if there is no such algorithm.';

CREATE OR REPLACE FUNCTION dbanon_internal.announce_job(job dbanon.job, came boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bounds CONSTANT tstzrange := dbanon_internal.find_next_period(job);
    rivals text;
    alone boolean;
BEGIN
    IF (SELECT rol.rolsuper FROM pg_roles rol WHERE rol.rolname = job.owner) THEN
        RAISE NOTICE 'The owner of job %, %, is a superuser: functions that its source calls run with all rights.', job.name, job.owner;
    END IF;
    SELECT string_agg(riv.title, ', ' ORDER BY riv.title), bool_or(riv.alone) OR dbanon_internal.stands_alone(job.method, job.algorithm)
    INTO rivals, alone
        FROM dbanon_internal.find_rivals(job) riv;
    IF rivals IS NOT NULL THEN
        RAISE NOTICE 'The people of job % are also published by: %. If both publish the same time, the later is refused %, and its period is held.',
            job.name, rivals, CASE WHEN alone THEN 'where one of the methods stands alone' ELSE 'if too few are left' END;
    END IF;
    PERFORM dbanon_internal.raise_notice(dbanon_internal.describe_missing_index(
        dbanon_internal.demand_job_source(job.source), dbanon_internal.make_job_loading(job, lower(bounds), upper(bounds))));
    RAISE NOTICE 'Job % % with the period from % to %, which is due at %.', job.name, CASE WHEN came THEN 'goes on' ELSE 'begins' END,
        lower(bounds), upper(bounds), upper(bounds) + job.wait;
END
$$;
COMMENT ON FUNCTION dbanon_internal.announce_job IS
'Says what to look at of a job that was added or changed: its owner, its rivals, its index, and the period that comes next. Raises an error if the
source is gone.';

CREATE OR REPLACE FUNCTION dbanon.add_job(
    name text, source regclass DEFAULT NULL, load jsonb DEFAULT NULL, method text DEFAULT NULL, params jsonb DEFAULT NULL, algorithm text DEFAULT NULL,
    dataset text DEFAULT NULL, further jsonb DEFAULT NULL, every interval DEFAULT NULL, tz text DEFAULT NULL, starts timestamptz DEFAULT NULL,
    wait interval DEFAULT NULL, lateness interval DEFAULT NULL, at_least double precision DEFAULT NULL, limits jsonb DEFAULT NULL,
    keep_data interval DEFAULT NULL, keep_parts interval DEFAULT NULL, readers text[] DEFAULT NULL, retry interval DEFAULT NULL,
    max_tries integer DEFAULT NULL, on_held text DEFAULT NULL, evaluate boolean DEFAULT NULL, owner text DEFAULT NULL,
    allow_no_requests boolean DEFAULT NULL, replace boolean DEFAULT false)
RETURNS bigint LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET intervalstyle = 'postgres' SET extra_float_digits = 1 AS $$
DECLARE
    qualified CONSTANT text := (SELECT format('%I.%I', nsp.nspname, cla.relname) FROM pg_class cla JOIN pg_namespace nsp ON nsp.oid = cla.relnamespace
                                WHERE cla.oid = add_job.source);
    job dbanon.job := dbanon_internal.fill_job((
        SELECT to_jsonb(given) FROM (SELECT name, qualified AS source, load, method, params, algorithm, dataset, further, every, tz, starts, wait,
            lateness, at_least, limits, keep_data, keep_parts, readers, retry, max_tries, on_held, evaluate, owner, allow_no_requests) given), replace);
    came CONSTANT boolean := job.job_id IS NOT NULL;
    checked jsonb;
BEGIN
    PERFORM dbanon_internal.demand_valid_job(job);
    PERFORM dbanon_internal.demand_job_release(job);
    -- A source that cannot be loaded is refused, also where it need not be asked for its first time.
    job.starts := coalesce(job.starts, dbanon_internal.find_start(job));
    PERFORM dbanon_internal.ask_times(job, 'any', job.starts, NULL);
    PERFORM dbanon_internal.try_loads(job);
    PERFORM dbanon_internal.demand_window_bounds(job);
    checked := dbanon_internal.complete_params(
        job.method, job.algorithm, dbanon_internal.make_period_params(job, dbanon_internal.find_next_period(job)));
    PERFORM dbanon_internal.demand_reach(job, checked);
    PERFORM dbanon_internal.demand_job_needs(job, checked);
    job := dbanon_internal.write_job(job);
    PERFORM dbanon_internal.announce_job(job, came);
    RETURN job.job_id;
END
$$;
COMMENT ON FUNCTION dbanon.add_job IS
'Adds a job that dbanon does every night, or changes one. The job loads new rows of a source. It computes the period that has ended. It publishes
the result as a part of the release of its name. It forgets old rows. A job overrides no refusal: it holds the period. Sessions that have logged in
as its owner run it, by `dbanon worker --schedule` or `CALL dbanon.run_jobs()`.
Arguments:
- name: name of the job and of its release.
- source: @AddingJob.source@
- load: a JSON object of arguments of dbanon.import_trajectories, with the same defaults except tz. A new job needs it. Its word read_dsn names, as
  service=NAME, the streaming replica that a worker reads the data of its runs from.
- method: the method, as listed in dbanon.methods. A new job needs it.
- params: parameters of the method, as a JSON object without since and until (see dbanon.method_parameters).
- algorithm: @AddingJob.algorithm@
- dataset: name of the dataset that rows go to. Default: the name of the job.
- further: a JSON array of other loads of each period. Each has a kind, requests or quasi_identifiers, and arguments of dbanon.import_requests or
  dbanon.import_quasi_identifiers. ''[]'' takes them back.
- every: length of a period. Days and more go by the clock of tz. Default: 1 day.
- tz: @AddingJob.tz@
- starts: @AddingJob.starts@
- wait: @AddingJob.wait@
- lateness: @AddingJob.lateness@
- at_least: share of the median of seven periods below which a period is thin and waits. Default: 0.5.
- limits: a JSON object of the greatest values of figures of a run, above which its period is held. ''{}'' takes them back.
- keep_data: @AddingJob.keep_data@
- keep_parts: @AddingJob.keep_parts@
- readers: @AddingJob.readers@ ''{}'' takes them back.
- retry: @AddingJob.retry@
- max_tries: @AddingJob.max_tries@
- on_held: @AddingJob.on_held@
- evaluate: @AddingJob.evaluate@
- owner: @AddingJob.owner@
- allow_no_requests: @AddingJob.allow_no_requests@
- replace: @AddingJob.replace@ Of load and params each word stays by itself, and null takes it back. Periods stay.
Returns: the number of the job.
Raises: DA001. DA002. DA003 if there is a job of the name, or a release that does not grow. DA011, DA012 and DA014 for arguments or an owner that
each night would refuse. DA024 if the dataset lacks what the method hides. DA013 while its dataset is being loaded, or another session adds or changes the job. Notices point to things to look at.
Example: SELECT dbanon.add_job(''taxi_days'', ''public.gps'', dataset => ''taxi'', load => ''{"subject": "cab", "time_column": "ts", "x": "lon", "y": "lat"}'',
method => ''METHOD'', params => ''{"k": 5}'', tz => ''Europe/Berlin'', keep_data => ''30 days'', keep_parts => ''1 year'').';

-- ---- steering

CREATE OR REPLACE FUNCTION dbanon_internal.steer_whole_job(job dbanon.job, action text) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF action = 'remove' AND NOT dbanon_internal.may_act_for(job.owner) AND EXISTS (SELECT FROM pg_roles rol WHERE rol.rolname = job.owner) THEN
        RAISE EXCEPTION 'A job must be removed by its owner. That of % is %.', job.name, job.owner
            USING ERRCODE = 'DA014', DETAIL = 'Every operator may pause it.', HINT = format('SELECT dbanon.steer_job(%L, ''pause'').', job.name);
    END IF;
    UPDATE dbanon.job stored
        SET paused = CASE action WHEN 'remove' THEN stored.paused ELSE action = 'pause' END,
            removed_at = CASE action WHEN 'remove' THEN now() END,
            -- From now on a session has to look at it.
            looked_at = CASE action WHEN 'resume' THEN clock_timestamp() ELSE stored.looked_at END
        WHERE stored.job_id = job.job_id AND (action = 'remove' OR stored.paused <> (action = 'pause'));
    RETURN FOUND::integer;
END
$$;
COMMENT ON FUNCTION dbanon_internal.steer_whole_job IS
'Pauses, resumes or removes a job; returns 1 if that changed it. Raises an error if a login that may not act for the owner removes it.';

CREATE OR REPLACE FUNCTION dbanon_internal.steer_periods(job dbanon.job, action text, since timestamptz, reason text) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bounds CONSTANT tstzrange := dbanon_internal.find_next_period(job);
    steered dbanon.job_period[];
BEGIN
    IF action = 'skip' THEN PERFORM dbanon_internal.demand_reason('A period that is skipped', reason); END IF;
    -- Those that are held, or the one that is named: it may be under way, to come, or skipped.
    IF since = lower(bounds) AND upper(bounds) <= now() THEN
        INSERT INTO dbanon.job_period (job_id, period) VALUES (job.job_id, bounds) ON CONFLICT DO NOTHING;
    END IF;
    SELECT array_agg(jpe) INTO steered FROM (
        SELECT jpe.* FROM dbanon.job_period jpe
        WHERE jpe.job_id = job.job_id
            AND (jpe.state NOT IN ('done', 'retain')
                 -- Its part was withdrawn: another is compared with it, as with all that was read.
                 OR (action = 'retry' AND jpe.state = 'done' AND EXISTS (
                    SELECT FROM dbanon.release rel WHERE rel.release_id = jpe.release_id AND rel.withdrawn_at IS NOT NULL)))
            AND CASE WHEN steer_periods.since IS NULL THEN jpe.state = 'held' ELSE lower(jpe.period) = steer_periods.since END
        ORDER BY jpe.period FOR UPDATE) jpe;
    IF steered IS NULL THEN
        RAISE EXCEPTION 'A period to % must be one that has ended and has no live part. Job % has none%.', action, job.name,
                coalesce(format(' that begins at %s', since), ' that is held')
            USING ERRCODE = 'DA013', DETAIL = 'Periods are named by their beginnings.',
                  HINT = 'List them: SELECT * FROM dbanon.job_runs.';
    END IF;
    UPDATE dbanon.job_period jpe
        SET state = CASE action WHEN 'skip' THEN 'skipped' ELSE 'load' END, skipped_as = CASE action WHEN 'skip' THEN 'asked' END,
            release_id = NULL, forced = action = 'retry', tries = 0, next_at = clock_timestamp(), sqlstate = NULL, error = NULL, changed_at = clock_timestamp(),
            finished_at = CASE action WHEN 'skip' THEN clock_timestamp() END
        WHERE jpe.job_id = job.job_id AND jpe.period IN (SELECT ele.period FROM unnest(steered) ele);
    INSERT INTO dbanon.audit (action, dataset, release, detail)
        SELECT steer_periods.action || '_period', job.dataset, job.name, jsonb_strip_nulls(jsonb_build_object(
            'job_id', job.job_id, 'since', lower(ele.period), 'until', upper(ele.period), 'reason', steer_periods.reason))
        FROM unnest(steered) ele ORDER BY ele.period;
    RETURN cardinality(steered);
END
$$;
COMMENT ON FUNCTION dbanon_internal.steer_periods IS
'Lets periods of a job be loaded and computed again, or skipped; returns how many. Raises an error if there is no such period, or if one is skipped
without a reason.';

CREATE OR REPLACE FUNCTION dbanon.steer_job(name text, action text, since timestamptz DEFAULT NULL, reason text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s'
AS $$
DECLARE
    actions CONSTANT text[] := ARRAY['pause', 'resume', 'retry', 'skip', 'remove'];
    job CONSTANT dbanon.job := dbanon_internal.demand_job(steer_job.name);
BEGIN
    IF action IS NULL OR action <> ALL (actions) THEN
        PERFORM dbanon_internal.refuse_name('action on a job', action, actions);
    ELSIF action IN ('retry', 'skip') THEN
        RETURN dbanon_internal.steer_periods(job, action, since, reason);
    END IF;
    RETURN dbanon_internal.steer_whole_job(job, action);
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'Job % is at work on the period, and nothing was changed.', steer_job.name
        USING ERRCODE = 'DA013', DETAIL = 'A step of it has not ended within 10 seconds.', HINT = 'Try again later.';
END
$$;
COMMENT ON FUNCTION dbanon.steer_job IS
'Pauses, resumes or removes a job, or decides about periods of it.
Arguments:
- name: name of the job.
- action: one of pause, resume, remove, retry and skip. ''pause'' lets no new step begin. ''remove'' ends the job, while its periods, data and release stay.
  ''retry'' loads and computes a period again, however few rows the source has, also if its part was withdrawn. ''skip'' leaves a period unpublished.
- since: the beginning of the period to retry or skip. Default: all that are held.
- reason: why a period is skipped, in three words or more. It is recorded.
Returns: how many jobs or periods it changed.
Raises: DA001. DA002. DA011. DA013 if there is no such period, or it is being worked on. DA014 if another login than its owner removes it.
Example: SELECT dbanon.steer_job(''taxi_days'', ''skip'', ''2026-11-20'', ''the clocks were wrong'').';
