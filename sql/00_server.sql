-- What the server shows everybody about private tables, taken from PUBLIC. Run before everything else and, unlike the other
-- files, as the login that upgrades: these things belong to a superuser and to the owner of PostGIS. Where the login may not
-- take them (a managed server) the upgrade goes on, and `dbanon db upgrade` says so.
--
-- Locks (pg_locks) show the keys by which runs and workers are known to be alive: whoever knows one can take it, and keep a run
-- that is dead looking alive. Counters (pg_stat_all_tables and the functions beneath) are exact and move with every statement. PostGIS's functions on
-- statistics and indexes ask for no right on the table: they give anybody its true extent, and estimates for any box.

DO $$
DECLARE
    object record;
BEGIN
    FOR object IN
        SELECT 'TABLE' AS kind, 'SELECT' AS privilege, c.oid::regclass::text AS name, c.relowner AS owner,
            has_table_privilege('public', c.oid, 'SELECT') AS open,
            (SELECT bool_and(has_table_privilege(r.name, c.oid, 'SELECT')) FROM (VALUES
                ('pg_monitor'), ('@admin@'), ('@operator@'), ('@worker@')) r (name)) AS given
        FROM pg_class c
        WHERE c.relnamespace = 'pg_catalog'::regnamespace
            AND c.relname ~ '^pg_(locks|stat(io|_xact)?_((all|sys|user)_(tables|indexes|sequences|functions)|database(_conflicts)?))$'
        UNION ALL
        SELECT 'FUNCTION', 'EXECUTE', p.oid::regprocedure::text, p.proowner,
            has_function_privilege('public', p.oid, 'EXECUTE'),
            (SELECT bool_and(has_function_privilege(r.name, p.oid, 'EXECUTE')) FROM (VALUES
                ('pg_monitor'), ('@admin@'), ('@operator@'), ('@worker@')) r (name))
        FROM pg_proc p
        WHERE (p.pronamespace = 'pg_catalog'::regnamespace AND p.proname ~ '^pg_stat_get_(?!subscription)'
               AND oidvectortypes(p.proargtypes) = 'oid')
            OR p.oid = 'pg_catalog.pg_lock_status()'::regprocedure
            OR (p.pronamespace = (SELECT e.extnamespace FROM pg_extension e WHERE e.extname = 'postgis') AND p.proname IN (
                '_postgis_stats', '_postgis_selectivity', '_postgis_join_selectivity', '_postgis_index_extent',
                'st_estimatedextent'))
    LOOP
        CONTINUE WHEN NOT pg_has_role(object.owner, 'USAGE');
        IF object.open THEN
            EXECUTE format('REVOKE %s ON %s %s FROM PUBLIC', object.privilege, object.kind, object.name);
        END IF;
        IF object.open OR NOT object.given THEN
            EXECUTE format('GRANT %s ON %s %s TO pg_monitor, @admin@, @operator@, @worker@',
                object.privilege, object.kind, object.name);
        END IF;
    END LOOP;
END
$$;

-- With it dbanon ends the sessions of those who read a release that is to be withdrawn at once.
DO $$
BEGIN
    IF NOT pg_has_role('@admin@', 'pg_signal_backend', 'USAGE') THEN
        GRANT pg_signal_backend TO @admin@;
    END IF;
-- Not every login may; or the upgrade of another database has just done it.
EXCEPTION WHEN insufficient_privilege OR unique_violation THEN NULL;
END
$$;
