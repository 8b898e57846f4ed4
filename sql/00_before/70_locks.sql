-- The locks that the sections below need on what is there already, taken here, so that a session in the way is named. Reading a table
-- is not in the way, nor is reading a release; the tables of releases, of which there may be thousands, are not changed below.

DO $$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        SELECT format(CASE cla.relkind WHEN 'v' THEN 'ALTER VIEW %I.%I OWNER TO @admin@'  -- as it is already; LOCK would lock its tables alike
                      ELSE 'LOCK TABLE ONLY %I.%I IN SHARE ROW EXCLUSIVE MODE' END, nsp.nspname, cla.relname)
        FROM pg_class cla JOIN pg_namespace nsp ON nsp.oid = cla.relnamespace
        WHERE nsp.nspname = 'dbanon' AND cla.relkind IN ('r', 'v') AND cla.relname !~ '_[0-9]'
            OR nsp.nspname = 'published' AND cla.relname IN ('releases', 'parts', 'columns', 'left_out', 'surfaces', 'atoms')
        ORDER BY cla.relkind, cla.oid
    LOOP
        EXECUTE statement;
    END LOOP;
EXCEPTION WHEN lock_not_available THEN
    PERFORM pg_temp.refuse_use();
END
$$;
