-- Drops the helpers that no view, trigger or other function depends on. The files below write them anew. PostgreSQL cannot replace a
-- function if its arguments get other names or its result gets other columns. Other helpers stay, and are replaced.

DO $$
DECLARE
    unused text;
BEGIN
    LOOP
        SELECT string_agg(pro.oid::regprocedure::text, ', ') INTO unused
            FROM pg_proc pro
            WHERE pro.pronamespace IN ('dbanon_internal'::regnamespace, 'published_inner'::regnamespace) AND pro.prokind = 'f'
                AND NOT EXISTS (SELECT FROM pg_depend dep WHERE dep.refclassid = 'pg_proc'::regclass AND dep.refobjid = pro.oid)
                AND NOT EXISTS (SELECT FROM pg_depend dep WHERE dep.classid = 'pg_proc'::regclass AND dep.objid = pro.oid AND dep.deptype = 'e');
        EXIT WHEN unused IS NULL;
        EXECUTE 'DROP FUNCTION ' || unused;  -- those that only these used are the next
    END LOOP;
END
$$;
