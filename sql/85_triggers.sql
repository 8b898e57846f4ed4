-- All triggers but those of releases' own tables: first those that are alike for many tables, then the others. They fire also where a
-- superuser has set session_replication_role to replica. One that is taken from the lists is dropped in a
-- revision; otherwise 86_removed cannot drop its function.

DO $$
DECLARE
    trigger record;
BEGIN
    FOR trigger IN
        -- Once a statement, with the rows that it added and those that it changed.
        SELECT format('%s_%s', def.name, lower(mom.event)) AS name, def.relation, mom.event, mom.moment, mom.rows || ' FOR EACH STATEMENT' AS firing,
            def.calls
        FROM (
            SELECT 'bump' AS name, relation, 'bump_revision' AS calls, NULL AS event FROM unnest(dbanon_internal.list_data_tables()) relation
            UNION ALL SELECT 'audit', relation, 'audit_rows', NULL FROM unnest(dbanon_internal.list_data_tables() || '{quarantine,signature}') relation
            UNION ALL SELECT 'code', 'trajectory', 'code_fixes', NULL
            UNION ALL SELECT 'guard_forgotten', relation, 'guard_forgotten', ele
                FROM unnest(ARRAY['trajectory', 'request', 'quasi_identifier']) relation, unnest(ARRAY['INSERT', 'UPDATE']) ele
            UNION ALL SELECT 'guard', relation, 'guard_run_rows', NULL FROM unnest(dbanon_internal.list_run_tables()) relation
            UNION ALL SELECT 'guard', relation, 'guard_groups', NULL
                FROM unnest(ARRAY['grouping', 'exposure', 'asked', 'published_cell', 'published_atom']) relation
            UNION ALL SELECT 'audit', relation, 'audit_rows', 'UPDATE' FROM unnest(ARRAY['grouping', 'exposure', 'asked']) relation
            UNION ALL SELECT 'guard', 'fix_code', 'guard_codes', ele FROM unnest(ARRAY['UPDATE', 'DELETE', 'TRUNCATE']) ele
            UNION ALL VALUES
                ('audit', 'dataset', 'audit_dataset', 'INSERT'), ('audit', 'dataset', 'audit_dataset', 'DELETE'),
                ('audit', 'verification', 'audit_verification', 'INSERT'),
                ('audit', 'run', 'audit_run', 'INSERT'), ('audit', 'run', 'audit_run', 'DELETE')
        ) def
        JOIN (VALUES
            ('INSERT', 'AFTER', 'REFERENCING NEW TABLE AS added'),
            ('UPDATE', 'AFTER', 'REFERENCING OLD TABLE AS changed NEW TABLE AS added'),
            ('DELETE', 'AFTER', 'REFERENCING OLD TABLE AS changed'),
            ('TRUNCATE', 'BEFORE', '')) mom (event, moment, rows) ON mom.event = coalesce(def.event, mom.event)
        UNION ALL
        -- The others.
        SELECT wan.name, wan.relation, wan.event, wan.moment, 'FOR EACH ' || wan.firing, wan.calls
        FROM (VALUES
            ('guard_update', 'dataset', 'BEFORE', 'UPDATE', 'guard_dataset',
             'ROW WHEN (OLD.srid <> NEW.srid OR OLD.grid_m <> NEW.grid_m OR OLD.grid_s <> NEW.grid_s OR OLD.day_zone IS DISTINCT FROM NEW.day_zone)'),
            ('guard_people', 'dataset', 'BEFORE', 'UPDATE', 'guard_people',
             'ROW WHEN (OLD.population_id <> NEW.population_id OR OLD.own_subjects <> NEW.own_subjects OR OLD.settle_s > NEW.settle_s)'),
            ('recode', 'dataset', 'AFTER', 'UPDATE', 'recode_people',
             'ROW WHEN (OLD.population_id <> NEW.population_id OR OLD.own_subjects <> NEW.own_subjects)'),
            ('guard_srid', 'dataset', 'BEFORE', 'INSERT OR UPDATE OF srid', 'guard_srid', 'ROW'),
            ('delete_rows', 'dataset', 'AFTER', 'DELETE', 'delete_dataset_rows', 'ROW'),
            ('audit_update', 'dataset', 'AFTER', 'UPDATE', 'audit_dataset',
             'ROW WHEN (NEW.dropped_at IS NULL AND (OLD.name <> NEW.name OR OLD.srid <> NEW.srid OR OLD.grid_m <> NEW.grid_m '
             'OR OLD.grid_s <> NEW.grid_s OR OLD.population_id <> NEW.population_id OR OLD.settle_s <> NEW.settle_s))'),
            ('audit_count', 'load', 'AFTER', 'INSERT OR UPDATE OF rows_read', 'audit_load', 'ROW WHEN (NEW.rows_read > 0)'),
            ('guard_subject', 'trajectory', 'BEFORE', 'UPDATE OF subject, dataset_id', 'guard_subject',
             'ROW WHEN (OLD.subject <> NEW.subject OR OLD.dataset_id <> NEW.dataset_id)'),
            ('guard_update', 'run', 'BEFORE', 'UPDATE', 'guard_run',
             'ROW WHEN (OLD.run_id <> NEW.run_id OR OLD.dataset_id <> NEW.dataset_id OR OLD.method <> NEW.method '
             'OR OLD.algorithm <> NEW.algorithm OR OLD.params <> NEW.params OR OLD.seed IS DISTINCT FROM NEW.seed)'),
            ('delete_rows', 'run', 'AFTER', 'DELETE', 'delete_run_rows', 'ROW'),
            ('audit_cancel', 'run', 'AFTER', 'UPDATE', 'audit_run',
             'ROW WHEN (OLD.cancel_requested_at IS NULL AND NEW.cancel_requested_at IS NOT NULL)'),
            ('audit_ask', 'run', 'AFTER', 'UPDATE', 'audit_run', 'ROW WHEN (OLD.todo IS NULL AND NEW.todo IS NOT NULL)'),
            ('freeze_promise', 'release', 'BEFORE', 'INSERT OR UPDATE', 'freeze_promise', 'ROW WHEN (NEW.promise IS NULL)'),
            ('guard_rows', 'release', 'BEFORE', 'UPDATE OR DELETE', 'guard_release', 'ROW'),
            ('guard_truncate', 'release', 'BEFORE', 'TRUNCATE', 'guard_release', 'STATEMENT'),
            ('guard_rows', 'series', 'BEFORE', 'UPDATE OR DELETE', 'guard_series', 'ROW'),
            ('guard_truncate', 'series', 'BEFORE', 'TRUNCATE', 'guard_series', 'STATEMENT'),
            ('audit_insert', 'release', 'AFTER', 'INSERT', 'audit_release', 'ROW'),
            ('audit_withdrawal', 'release', 'AFTER', 'UPDATE', 'audit_release',
             'ROW WHEN (OLD.withdrawn_at IS NULL AND NEW.withdrawn_at IS NOT NULL)'),
            ('guard_key', 'population', 'BEFORE', 'UPDATE', 'guard_key',
             'ROW WHEN (OLD.key <> NEW.key OR OLD.population_id <> NEW.population_id)'),
            ('guard_key', 'installation', 'BEFORE', 'UPDATE', 'guard_key', 'ROW WHEN (OLD.key <> NEW.key)'),
            ('guard_delete', 'population', 'BEFORE', 'DELETE', 'guard_key', 'ROW'),
            ('guard_delete', 'installation', 'BEFORE', 'DELETE', 'guard_key', 'ROW'),
            ('guard_truncate', 'population', 'BEFORE', 'TRUNCATE', 'guard_key', 'STATEMENT'),
            ('guard_truncate', 'installation', 'BEFORE', 'TRUNCATE', 'guard_key', 'STATEMENT'),
            ('audit_add', 'job', 'AFTER', 'INSERT', 'audit_job', 'ROW'),
            ('audit_change', 'job', 'AFTER', 'UPDATE', 'audit_job',
             'ROW WHEN ((OLD.held_by, OLD.looked_at) IS NOT DISTINCT FROM (NEW.held_by, NEW.looked_at))'),
            ('audit', 'policy', 'AFTER', 'INSERT OR UPDATE OR DELETE', 'audit_policy', 'ROW'),
            ('audit_all', 'policy', 'AFTER', 'TRUNCATE', 'audit_policy', 'STATEMENT'),
            ('write_cloak', 'cloak', 'INSTEAD OF', 'INSERT OR UPDATE OR DELETE', 'write_cloak', 'ROW'),
            ('guard_rows', 'method', 'BEFORE', 'INSERT OR UPDATE OR DELETE OR TRUNCATE', 'guard_methods', 'STATEMENT'),
            ('guard_rows', 'audit', 'BEFORE', 'UPDATE OR DELETE OR TRUNCATE', 'guard_audit', 'STATEMENT')
        ) wan (name, relation, moment, event, calls, firing)
    LOOP
        EXECUTE format('CREATE OR REPLACE TRIGGER %I %s %s ON dbanon.%I %s EXECUTE FUNCTION dbanon_internal.%I()',
                       trigger.name, trigger.moment, trigger.event, trigger.relation, trigger.firing, trigger.calls);
    END LOOP;
    -- At the commit, so that the log names no publication that was undone, such as one that a job holds. A release that is lost has no run.
    IF NOT EXISTS (SELECT FROM pg_trigger tri WHERE tri.tgrelid = 'dbanon.release'::regclass AND tri.tgname = 'note_publication') THEN
        CREATE CONSTRAINT TRIGGER note_publication AFTER INSERT ON dbanon.release DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW WHEN (NEW.run_id IS NOT NULL) EXECUTE FUNCTION dbanon_internal.note_publication();
    END IF;
    -- Those of releases' own tables too, where an administrator has changed them. Those of views cannot be: with replica, writing
    -- through dbanon.cloak changes nothing.
    FOR trigger IN
        SELECT tri.tgrelid::regclass AS relation, tri.tgname AS name
        FROM pg_trigger tri JOIN pg_class cla ON cla.oid = tri.tgrelid
        WHERE cla.relnamespace = 'dbanon'::regnamespace AND cla.relkind <> 'v' AND NOT tri.tgisinternal AND tri.tgenabled <> 'A'
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', trigger.relation, trigger.name);
    END LOOP;
END
$$;
