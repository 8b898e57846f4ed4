-- Who may do what. Nothing for PUBLIC; then role by role.

REVOKE ALL ON SCHEMA dbanon, published FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA dbanon FROM PUBLIC, dbanon_operator, dbanon_worker, dbanon_analyst;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA dbanon FROM PUBLIC, dbanon_operator, dbanon_worker, dbanon_analyst;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA dbanon FROM PUBLIC, dbanon_operator, dbanon_worker, dbanon_analyst;

GRANT USAGE ON SCHEMA dbanon TO dbanon_operator, dbanon_worker;
GRANT USAGE ON SCHEMA published TO dbanon_operator, dbanon_worker, dbanon_analyst;

-- Operators load, submit and publish. They set no revision, status or verdict: the columns are named.
GRANT SELECT ON dbanon.dataset, dbanon.trajectory, dbanon.fix, dbanon.load, dbanon.quarantine, dbanon.request, dbanon.site,
    dbanon.method, dbanon.run, dbanon.verification, dbanon.release, dbanon.alembic_version TO dbanon_operator;
GRANT INSERT (name, srid, grid_m, grid_s), UPDATE (srid, grid_m, grid_s) ON dbanon.dataset TO dbanon_operator;
GRANT INSERT, UPDATE, DELETE ON dbanon.trajectory, dbanon.request, dbanon.site TO dbanon_operator;
GRANT INSERT (dataset_id, kind, source, rows_read, rows_kept, quarantined) ON dbanon.load TO dbanon_operator;
GRANT UPDATE (rows_read, rows_kept, quarantined) ON dbanon.load TO dbanon_operator;
GRANT INSERT ON dbanon.quarantine TO dbanon_operator;
GRANT INSERT (dataset_id, method, algorithm, params, seed), DELETE ON dbanon.run TO dbanon_operator;
GRANT EXECUTE ON FUNCTION dbanon.publish(bigint, text), dbanon.unpublish(text), dbanon.check_name(text),
    dbanon.reap_runs(), dbanon.run_lock_key(bigint) TO dbanon_operator;
-- A plan is made with the rights of whoever asks, so each of its steps is granted.
GRANT EXECUTE ON FUNCTION dbanon.plan_run(text, text, jsonb, text), dbanon.plan_rates(), dbanon.plan_figure(double precision),
    dbanon.plan_looks_at(text, double precision), dbanon.plan_read(bigint),
    dbanon.plan_windows(bigint, double precision, integer, bigint, integer, integer, bigint, text, integer),
    dbanon.plan_tp_aware(jsonb), dbanon.plan_sensitive_sites(jsonb),
    dbanon.plan_site_users(text, bigint, bigint, bigint, bigint), dbanon.plan_cost(text, jsonb),
    dbanon.plan_earlier(text, text, bigint) TO dbanon_operator;

-- Workers compute and verify; they load nothing and publish nothing.
GRANT SELECT ON dbanon.dataset, dbanon.trajectory, dbanon.fix, dbanon.load, dbanon.request, dbanon.site, dbanon.method, dbanon.run,
    dbanon.cloak, dbanon.membership, dbanon.verification, dbanon.release, dbanon.alembic_version TO dbanon_worker;
GRANT INSERT, UPDATE ON dbanon.run TO dbanon_worker;
GRANT INSERT, UPDATE, DELETE ON dbanon.cloak, dbanon.membership TO dbanon_worker;
GRANT INSERT ON dbanon.verification TO dbanon_worker;
GRANT EXECUTE ON FUNCTION dbanon.run_digest(bigint), dbanon.cloak_evidence(bigint), dbanon.membership_evidence(bigint),
    dbanon.request_evidence(bigint), dbanon.site_evidence(bigint), dbanon.reap_runs(), dbanon.run_lock_key(bigint) TO dbanon_worker;

-- The registry may be read, and parameters be checked, by both.
GRANT SELECT ON dbanon.methods, dbanon.method_parameters TO dbanon_operator, dbanon_worker;
GRANT EXECUTE ON FUNCTION dbanon.likeness(text, text), dbanon.quoted(text), dbanon.stripped(jsonb), dbanon.is_number(text),
    dbanon.shown(jsonb), dbanon.as_number(jsonb), dbanon.as_instant(jsonb), dbanon.as_parameter(jsonb, jsonb),
    dbanon.refuse_name(text, text, text[]), dbanon.checked_algorithm(text, text), dbanon.checked_value(text, jsonb, jsonb),
    dbanon.check_params(text, text, jsonb), dbanon.version() TO dbanon_operator, dbanon_worker;
