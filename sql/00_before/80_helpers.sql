-- Helpers go that nothing stored uses, and are written anew below: PostgreSQL replaces no function by one whose arguments have other names
-- or whose columns are others. What is used stays, and is replaced.

DO $$
DECLARE
    unused text;
BEGIN
    LOOP
        SELECT string_agg(pro.oid::regprocedure::text, ', ') INTO unused
            FROM pg_proc pro
            WHERE pro.pronamespace = 'dbanon_internal'::regnamespace AND pro.prokind = 'f'
                AND NOT EXISTS (SELECT FROM pg_depend dep WHERE dep.refclassid = 'pg_proc'::regclass AND dep.refobjid = pro.oid)
                AND NOT EXISTS (SELECT FROM pg_depend dep WHERE dep.classid = 'pg_proc'::regclass AND dep.objid = pro.oid AND dep.deptype = 'e');
        EXIT WHEN unused IS NULL;
        EXECUTE 'DROP FUNCTION ' || unused;  -- those that only these used are the next
    END LOOP;
END
$$;
