-- Jobs: which periods they have, and what their sources hold of a period.
--
-- The session that runs a job has logged in as its owner. The functions by which imports read a source read it here too, with the rights of that session.

-- ---- periods

CREATE OR REPLACE FUNCTION dbanon_internal.find_bounds(
    starts timestamptz, every interval, tz text, moment timestamptz, OUT before timestamptz, OUT after timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    -- Months are of unequal lengths, so the number of the bound is guessed, and looked for around that.
    SELECT max(b.bound) FILTER (WHERE b.bound <= moment), min(b.bound) FILTER (WHERE b.bound > moment)
    FROM (SELECT floor(extract(epoch FROM moment - starts) / extract(epoch FROM every))::bigint AS guess) g
    CROSS JOIN LATERAL generate_series(g.guess - 2 - abs(g.guess) / 20, g.guess + 3 + abs(g.guess) / 20) n
    -- From the anchor each time, not from bound to bound: after a midnight that does not exist, that would never find midnight again. Nor does
    -- an anchor at such a midnight, which the clock of the zone calls one o'clock.
    CROSS JOIN LATERAL (SELECT date_trunc('day', starts AT TIME ZONE tz) AS midnight) m
    CROSS JOIN LATERAL (SELECT CASE
        WHEN extract(month FROM every) = 0 AND extract(year FROM every) = 0 AND extract(day FROM every) = 0 THEN starts + every * n
        WHEN m.midnight AT TIME ZONE tz = starts THEN (m.midnight + every * n) AT TIME ZONE tz
        ELSE ((starts AT TIME ZONE tz) + every * n) AT TIME ZONE tz END) b (bound)
$$;
COMMENT ON FUNCTION dbanon_internal.find_bounds IS
'Finds the last bound of periods that is not after a moment, and the first one after it: days and more by the clock of a time zone.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_period_from(starts timestamptz, every interval, tz text, since timestamptz) RETURNS tstzrange
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT tstzrange(since, b.after) FROM dbanon_internal.find_bounds(starts, every, tz, since) b
$$;
COMMENT ON FUNCTION dbanon_internal.find_period_from IS 'The period from an instant to the next bound after it.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_next_period(job dbanon.job) RETURNS tstzrange
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN dbanon_internal.find_period_from(job.starts, job.every, job.tz, greatest(job.starts, (
        SELECT max(upper(p.period)) FROM dbanon.job_period p WHERE p.job_id = job.job_id)));
EXCEPTION WHEN data_exception THEN
    -- A time zone that the server has no longer: dbanon.jobs shows other jobs, and dbanon.run_jobs goes on with them.
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_next_period IS
'The first period of a job that has not come yet; NULL where the intervals or the time zone of the job give none.';

CREATE OR REPLACE FUNCTION dbanon_internal.compute_job_history(job dbanon.job) RETURNS interval
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- What was said before a period and still counts in it; and what exact rows reach back to.
    SELECT make_interval(secs => greatest(
        coalesce((job.params ->> 'max_gap_s')::double precision, (
            SELECT (par.value ->> 'default')::double precision FROM jsonb_array_elements(met.parameters) par
            WHERE par.value ->> 'name' = 'max_gap_s'), 0),
        dbanon_internal.find_settle_s(pop.population_id),
        -- As the first load makes it.
        coalesce((job.load ->> 'settle_s')::double precision, CASE WHEN dat.dataset_id IS NULL THEN 900 END)))
    FROM dbanon.method met
    LEFT JOIN dbanon.dataset dat ON dat.name = job.dataset AND dat.dropped_at IS NULL
    LEFT JOIN dbanon.population pop ON CASE WHEN dat.dataset_id IS NULL THEN pop.name = coalesce(job.load ->> 'population', 'default')
                                          ELSE pop.population_id = dat.population_id END
    WHERE met.name = job.method
$$;
COMMENT ON FUNCTION dbanon_internal.compute_job_history IS 'How long before a period data are needed to compute it.';

-- ---- sources

CREATE OR REPLACE FUNCTION dbanon_internal.make_job_loading(job dbanon.job, since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL)
RETURNS dbanon_internal.loading
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- As dbanon.import_trajectories has it where nothing is said; but times that name no zone are of the job's.
    SELECT jsonb_populate_record(NULL::dbanon_internal.loading, jsonb_build_object(
            'subject', 'subject', 'time_column', 'time', 'grid_m', 1, 'grid_s', 1, 'drop_outliers', false, 'subject_per_day', false, 'tz', job.tz,
            'geom', CASE WHEN job.load ?| ARRAY['x', 'y'] THEN NULL ELSE 'geom' END)
        || job.load || jsonb_build_object('dataset', job.dataset, 'mode', 'new', 'since', since, 'until', until))
$$;
COMMENT ON FUNCTION dbanon_internal.make_job_loading IS 'What a job asks a load of fixes for.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_job_source(named text) RETURNS regclass
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF to_regclass(named) IS NULL THEN
        RAISE EXCEPTION 'The source of a job must exist. There is no %.', coalesce(dbanon_internal.quote_text(named), 'NULL')
            USING ERRCODE = 'DA012', DETAIL = 'Jobs find their sources by name.',
                  HINT = 'Make it again, or name another: SELECT dbanon.add_job(..., replace => true).';
    END IF;
    RETURN to_regclass(named);
EXCEPTION WHEN insufficient_privilege THEN
    RAISE EXCEPTION 'The login must be allowed to use the schema of the source. It may not.'
        USING ERRCODE = 'DA014', DETAIL = 'It is the owner of the job, or the login that adds it.', HINT = 'GRANT USAGE ON SCHEMA ... TO ...;';
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_job_source IS 'Looks up a source by its name.';

CREATE OR REPLACE FUNCTION dbanon_internal.ask_times(
    job dbanon.job, question text, since timestamptz, until timestamptz, past dbanon.job_period[] DEFAULT NULL) RETURNS double precision
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
    asked CONSTANT dbanon_internal.loading := dbanon_internal.make_job_loading(job, since, until);
    subject CONSTANT text := nullif(asked.subject, '-');
    described record;
    units_per_s double precision;
    times text;
BEGIN
    PERFORM dbanon_internal.demand_columns(asked, false);
    IF job.job_id IS NULL THEN  -- dbanon.add_job asks; to look among all time zones for each question would take longer than to answer it
        PERFORM dbanon_internal.demand_zone(asked.tz);
    END IF;
    PERFORM dbanon_internal.demand_window(asked);
    described := dbanon_internal.describe_source(dbanon_internal.demand_job_source(job.source), array_remove(
        ARRAY[subject, asked.time_column, asked.geom, asked.x, asked.y, asked.trip], NULL), subject, asked.geom);
    IF asked.geom IS NULL THEN
        PERFORM dbanon_internal.demand_numbers(described.qualified::regclass, described.types, ARRAY[asked.x, asked.y]);
    ELSE
        PERFORM dbanon_internal.demand_geometry(described.types, asked.geom, described.qualified::regclass);
    END IF;
    PERFORM dbanon_internal.demand_filter(described.qualified, asked.filter);
    units_per_s := dbanon_internal.find_units(
        dbanon_internal.build_chosen_rows(described.qualified, '{}', NULL, dbanon_internal.make_job_loading(job)), described.qualified,
        described.types ->> asked.time_column, asked, 'trajectories', 'table ' || described.qualified);
    -- The condition in the source is on the column as it is, for its index; local times are judged again as instants.
    times := format(
        '(SELECT tim.t FROM (SELECT %I AS raw_time FROM %s) raw CROSS JOIN LATERAL %s WHERE tim.t > -1e11 AND tim.t < 1e11%s%s%s) a',
        asked.time_column, dbanon_internal.build_chosen_rows(described.qualified, described.types, units_per_s, asked),
        dbanon_internal.build_reading('raw.raw_time', described.types, asked, units_per_s),
        CASE WHEN since IS NOT NULL THEN format(' AND tim.t >= %L::float8', extract(epoch FROM since)) END,
        CASE WHEN until IS NOT NULL THEN format(' AND tim.t < %L::float8', extract(epoch FROM until)) END,
        CASE question WHEN 'any' THEN ' LIMIT 1' END);
    RETURN dbanon_internal.ask_source(CASE question
        WHEN 'gone' THEN format(
            'SELECT sum(greatest(x.rows - x.found, 0))::float8 FROM (SELECT p.rows, count(a.t) AS found FROM unnest(%L::bigint[]) WITH ORDINALITY p (rows, place) '
            'LEFT JOIN %s ON width_bucket(a.t, %L::float8[]) = p.place GROUP BY p.place, p.rows) x',
            ARRAY(SELECT jpe.at_source FROM unnest(past) jpe ORDER BY jpe.period), times,
            ARRAY(SELECT extract(epoch FROM lower(jpe.period))::float8 FROM unnest(past) jpe ORDER BY jpe.period))
        ELSE format('SELECT %s::float8 FROM %s', CASE question WHEN 'first' THEN 'min(t)' ELSE 'count(*)' END, times) END, described.qualified);
END
$$;
COMMENT ON FUNCTION dbanon_internal.ask_times IS
'Asks a job''s source how many rows it has of a span of time (count), whether it has any (any, as 1 or 0), for the first time in unix
seconds (first), or how many rows of some periods it has no longer (gone); refuses a source that the job could not load.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_gap_end(job dbanon.job, period tstzrange) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    next_row timestamptz;
    watched_since timestamptz;
BEGIN
    IF EXISTS (SELECT FROM dbanon.job_period jpe WHERE jpe.job_id = job.job_id AND lower(jpe.period) >= upper(find_gap_end.period)) THEN
        RETURN upper(period);
    END IF;
    next_row := to_timestamp(dbanon_internal.ask_times(job, 'first', upper(period), clock_timestamp()));
    -- Empty periods that rows may still come for stay separate: each is opened again if they do.
    SELECT bou.before - greatest(job.lateness, dbanon_internal.compute_job_history(job)) INTO watched_since
        FROM dbanon_internal.find_bounds(job.starts, job.every, job.tz, least(next_row, clock_timestamp() - job.wait)) bou WHERE next_row IS NOT NULL;
    RETURN greatest(upper(period), (
        SELECT bou.before FROM dbanon_internal.find_bounds(job.starts, job.every, job.tz, watched_since) bou));
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_gap_end IS
'Finds how far the gap of a job''s source reaches that begins with an empty period: to the last bound before which no row is awaited any more.';
