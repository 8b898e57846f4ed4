-- What an administrator sees: figures for a monitoring system, and what is wrong with what to do about it.

CREATE OR REPLACE FUNCTION dbanon_internal.list_vitals() RETURNS TABLE (name text, about text, labels jsonb, value double precision)
LANGUAGE sql VOLATILE PARALLEL RESTRICTED CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- Any client of a worker may read them: they count processes and runs, never rows or people.
    SELECT 'workers', 'Processes of workers that are up.', '{}'::jsonb, count(*)::double precision FROM dbanon.workers
    UNION ALL
    SELECT 'runs_waiting', 'Runs that wait for a worker.', '{}', count(*) FROM dbanon.runs run WHERE run.progress = 'waiting for a worker'
    UNION ALL
    SELECT 'runs', 'Runs by status.', jsonb_build_object('status', ele.status), count(run.run_id)
        FROM unnest(ARRAY['queued', 'running', 'computed', 'verified', 'refused', 'failed', 'cancelled']) ele (status)
        LEFT JOIN dbanon.runs run ON run.status = ele.status GROUP BY ele.status
    UNION ALL
    SELECT 'last_success_timestamp_seconds', 'When the last run was verified, and the last release published.', jsonb_build_object('of', las.what),
            extract(epoch FROM las.at)
        FROM (SELECT 'run' AS what, (SELECT max(run.finished_at) FROM dbanon.run run WHERE run.status = 'verified') AS at
              UNION ALL SELECT 'publication', (SELECT max(rel.published_at) FROM dbanon.release rel WHERE rel.run_id IS NOT NULL)) las
        WHERE las.at IS NOT NULL
    UNION ALL
    SELECT 'history_forked', 'Whether nothing can be published before dbanon.confirm_history is called.', '{}', fork.forked::integer
        FROM dbanon_internal.is_forked() fork (forked) WHERE fork.forked IS NOT NULL
    UNION ALL
    SELECT mea.name, mea.about, jsonb_build_object('job', job.name), mea.value
        FROM dbanon.jobs job
        CROSS JOIN LATERAL (VALUES
            ('job_lag_seconds', 'How long ago the first period ended that is not published.', extract(epoch FROM job.lag)),
            ('job_last_success_timestamp_seconds', 'When a period was done last.', extract(epoch FROM job.last_success)),
            ('job_held_periods', 'Periods that are held.', job.held), ('job_tries', 'How often the step to be done has failed.', job.tries),
            ('job_enabled', 'Whether the job is not paused.', (job.state <> 'paused')::integer)) mea (name, about, value)
        WHERE mea.value IS NOT NULL
$$;
COMMENT ON FUNCTION dbanon_internal.list_vitals IS 'The figures that a worker with --listen shows at /metrics, a row each, and the only place that makes them.';

CREATE OR REPLACE VIEW dbanon.health AS
SELECT 2 AS level, 'runs' AS about,
    format('%s for a worker, and none is up.', dbanon_internal.format_quantity(count(*), 'run waits', 'runs wait')) AS what,
    min(run.submitted_at) AS since, 'Start one: dbanon worker' AS remedy
FROM dbanon.runs run
WHERE run.progress = 'waiting for a worker' AND NOT EXISTS (SELECT FROM dbanon.workers)
HAVING count(*) > 0
UNION ALL
SELECT 1, 'runs', format('%s for more than an hour, although a worker is up.', dbanon_internal.format_quantity(count(*), 'run has waited', 'runs have waited')),
    min(run.submitted_at), 'Start more of them: dbanon worker'
FROM dbanon.runs run
WHERE run.progress = 'waiting for a worker' AND run.status = 'queued' AND run.submitted_at < now() - interval '1 hour'
    AND EXISTS (SELECT FROM dbanon.workers)
HAVING count(*) > 0
UNION ALL
SELECT CASE WHEN fork.forked THEN 2 ELSE 3 END, 'history',
    CASE WHEN fork.forked THEN 'The database was restored, copied or failed over since the last publication, and nothing can be published.'
         ELSE 'dbanon cannot read which server this is, and nothing can be published.' END,
    NULL, CASE WHEN fork.forked THEN 'List the publications since then. If there are none: SELECT dbanon.confirm_history(''[]'', ''why that is '
        'certain'')'
               ELSE 'GRANT EXECUTE ON FUNCTION pg_control_system(), pg_control_checkpoint(), pg_current_wal_lsn(), pg_walfile_name(pg_lsn) TO @admin@; '
                    'on Amazon Aurora set rds.logical_replication to 1 for the cluster' END
FROM dbanon_internal.is_forked() fork (forked)
WHERE fork.forked IS NOT FALSE
UNION ALL
SELECT 2, 'history', format('A restore over a newer state left %s, which no release names, and nothing can be published.', str.named), NULL,
    format('Once the publications since the dump are listed with dbanon.confirm_history: %s', str.remedy)
FROM dbanon_internal.find_strays() str WHERE str.named IS NOT NULL
UNION ALL
SELECT 2, 'methods', 'Table dbanon.method was changed since the last upgrade wrote it, and nothing can be published.', NULL, 'Upgrade the database again, which writes the table, and find out who changed it'
WHERE dbanon_internal.has_own_methods() IS NOT TRUE
UNION ALL
SELECT fin.level, fin.about, fin.what, fin.since, fin.remedy FROM dbanon_internal.list_job_findings() fin;
