-- Who may do what. Nothing for PUBLIC; then role by role.

REVOKE ALL ON SCHEMA dbanon, dbanon_internal, published, published_inner FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA dbanon FROM PUBLIC, @operator@, @worker@, @analyst@;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA dbanon FROM PUBLIC, @operator@, @worker@, @analyst@;
REVOKE ALL ON ALL ROUTINES IN SCHEMA dbanon, dbanon_internal FROM PUBLIC, @operator@, @worker@, @analyst@;

GRANT USAGE ON SCHEMA dbanon, dbanon_internal TO @operator@, @worker@;
GRANT USAGE ON SCHEMA published, published_inner TO @operator@, @worker@, @analyst@;
-- A dump that is restored where these roles are missing loses their rights on the views of live releases. Whoever may not read the list of
-- releases has lost them in that way. A right that was taken by hand from one view stays taken.
DO $$
DECLARE
    lost record;
BEGIN
    FOR lost IN
        SELECT DISTINCT rel.name, ele AS role
        FROM ONLY dbanon.release rel
        CROSS JOIN LATERAL unnest(CASE WHEN rel.readers IS NULL THEN ARRAY['@analyst@'] ELSE rel.readers || '@operator@'::text END) ele
        JOIN pg_roles rol ON rol.rolname = ele
        WHERE rel.withdrawn_at IS NULL AND to_regclass(format('published.%I', rel.name)) IS NOT NULL
            AND NOT has_table_privilege(rol.oid, 'published.releases', 'SELECT')
    LOOP
        EXECUTE format('GRANT SELECT ON published.%I TO %I', lost.name, lost.role);
    END LOOP;
END
$$;
REVOKE ALL ON published.releases, published.parts, published.columns, published.left_out, published.surfaces, published.atoms FROM PUBLIC;
GRANT SELECT ON published.releases, published.parts, published.columns, published.left_out, published.surfaces, published.atoms TO @analyst@;
REVOKE ALL ON ALL ROUTINES IN SCHEMA published, published_inner FROM PUBLIC;
GRANT EXECUTE ON ALL ROUTINES IN SCHEMA published, published_inner TO @operator@, @worker@, @analyst@;
-- Roles that read single releases, with views and functions that are new.
DO $$
DECLARE
    reader text;
BEGIN
    FOR reader IN
        SELECT DISTINCT ele FROM ONLY dbanon.release rel CROSS JOIN LATERAL unnest(rel.readers) ele JOIN pg_roles rol ON rol.rolname = ele
        WHERE rel.withdrawn_at IS NULL
    LOOP
        EXECUTE format('GRANT USAGE ON SCHEMA published, published_inner TO %I', reader);
        EXECUTE format('GRANT SELECT ON published.releases, published.parts, published.columns, published.left_out, published.surfaces, published.atoms TO %I', reader);
        EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA published, published_inner TO %I', reader);
    END LOOP;
END
$$;

-- Both read what is there. Operators load, submit and publish; they set no revision, status or verdict: the columns are named.
-- Workers compute and verify; they load nothing and publish nothing. No role reads the channels of the workers.
GRANT SELECT ON dbanon.dataset, dbanon.fix, dbanon.subject_day, dbanon.load, dbanon.method, dbanon.methods, dbanon.method_parameters,
    dbanon.datasets, dbanon.run, dbanon.runs,
    dbanon.workers, dbanon.verification, dbanon.evaluation, dbanon.evaluations, dbanon.release, dbanon.series, dbanon.published_cell,
    dbanon.published_atom, dbanon.releases, dbanon.health, dbanon.policy, dbanon.signature, dbanon.job_period, dbanon.jobs, dbanon.job_runs, dbanon.alembic_version TO
    @operator@, @worker@;
GRANT SELECT ON dbanon.audit, dbanon.quarantine, dbanon.job TO @operator@;
GRANT INSERT (name, srid, grid_m, grid_s, day_zone, population_id, settle_s, own_subjects),
    UPDATE (srid, grid_m, grid_s, day_zone, population_id, settle_s, own_subjects) ON dbanon.dataset TO @operator@;
GRANT SELECT (population_id, name) ON dbanon.population TO @operator@, @worker@;
GRANT INSERT ON dbanon.quarantine TO @operator@;
-- But for what was asked for, which the audit has.
GRANT UPDATE (dataset_revision, status, metrics, suppressed, timings, peak_rss_mb, error, program_version, started_at, finished_at, todo, attempts,
    most_attempts, worker, held_by, stage, stage_done, stage_total, rows, error_kind, cancel_requested_at, cancel_requested_by, publish_error,
    tied_to, data_digest) ON dbanon.run TO @worker@;
GRANT INSERT ON dbanon.verification TO @worker@;
GRANT INSERT (run_id, dataset_id, dataset_revision, method, algorithm, params, sample, against, queries, seed, figures, run_figures, notes)
    ON dbanon.evaluation TO @worker@;
GRANT INSERT (name, channel, held_by) ON dbanon.worker TO @worker@;

DO $$
DECLARE
    thing text;
BEGIN
    FOREACH thing IN ARRAY dbanon_internal.list_data_tables() LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON dbanon.%I TO @operator@', thing);
        EXECUTE format('GRANT SELECT ON dbanon.%I TO @worker@', thing);
    END LOOP;
    FOREACH thing IN ARRAY dbanon_internal.list_run_tables() || 'cloak'::text LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON dbanon.%I TO @worker@', thing);
    END LOOP;
    -- A function that runs with the rights of its caller gives no caller a right.
    FOR thing IN
        SELECT pro.oid::regprocedure::text FROM pg_proc pro
        WHERE pro.pronamespace IN ('dbanon'::regnamespace, 'dbanon_internal'::regnamespace) AND NOT pro.prosecdef
    LOOP
        EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO @operator@, @worker@', thing);
    END LOOP;
    PERFORM dbanon_internal.grant_signing(rol.rolname) FROM ONLY dbanon.policy pol JOIN pg_roles rol ON rol.rolname = pol.signers;
END
$$;

-- These run with the rights of their owner.
GRANT EXECUTE ON FUNCTION dbanon_internal.insert_run(text, text, jsonb, text, bigint), dbanon.cancel_run(bigint), dbanon.verify_run(bigint),
    dbanon.release_card(text, bigint), dbanon.run_card(bigint), dbanon_internal.reap_runs(), dbanon_internal.is_forked(),
    dbanon_internal.has_own_methods(), dbanon_internal.find_run_span(bigint) TO @operator@, @worker@;
GRANT EXECUTE ON FUNCTION dbanon.publish(bigint, text, boolean, boolean, text, boolean, text[], boolean), dbanon.measure_overlap(bigint),
    dbanon.unpublish(text, boolean), dbanon.unpublish_part(text, timestamptz), dbanon.fold_release(text, timestamptz),
    dbanon.clear_withdrawn(), dbanon.drop_run(bigint), dbanon.forget_subject(text, text, boolean),
    dbanon.remember_subject(text, text),
    dbanon.drop_load(bigint), dbanon.forget_before(text, timestamptz), dbanon.drop_dataset(text), dbanon_internal.begin_record(bigint, text,
    text[], double precision),
    dbanon_internal.count_record(bigint, bigint[], jsonb, bigint[], timestamptz), dbanon_internal.find_forgotten(bigint, text[]),
    dbanon_internal.find_known_names(bigint, text[]),
    dbanon_internal.note_copies(bigint, bigint, bigint), dbanon_internal.find_or_add_population(text),
    dbanon_internal.try_publish(bigint, text, boolean, boolean, text, boolean, text[], boolean), dbanon_internal.list_releases_within(bigint, tstzrange, interval),
    dbanon_internal.find_conflicts(bigint, text, text, jsonb, tstzrange, interval), dbanon.steer_job(text, text, timestamptz, text),
    dbanon_internal.write_job(dbanon.job), dbanon_internal.claim_job(bigint), dbanon_internal.leave_job(bigint),
    dbanon_internal.ask_evaluation(bigint),
    dbanon_internal.tie_run(bigint, bigint), dbanon_internal.sample_people(text, integer, bigint),
    dbanon_internal.open_period(bigint), dbanon_internal.set_period(bigint, tstzrange, jsonb), dbanon_internal.drop_part_rows(bigint),
    dbanon_internal.note_page(bigint, text, text) TO @operator@;
GRANT EXECUTE ON FUNCTION dbanon_internal.requeue_run(bigint, integer) TO @worker@;

-- A withdrawn release that could not be dropped yet stays closed, also where a restore has given its owner all rights again.
DO $$
DECLARE
    gone text;
BEGIN
    FOR gone IN
        SELECT format('dbanon.%s', w.relation) FROM dbanon_internal.list_withdrawn_tables() w
        WHERE to_regclass(format('dbanon.%s', w.relation)) IS NOT NULL
    LOOP
        PERFORM dbanon_internal.revoke_rights(gone);
    END LOOP;
END
$$;
