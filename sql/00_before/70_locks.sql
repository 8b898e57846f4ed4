-- The locks that the sections below need on what is there already, taken here, so that a session in the way is named. Reading a table
-- is not in the way, nor is reading a release; the tables of releases, of which there may be thousands, are not changed below.

DO $$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        SELECT format(CASE c.relkind WHEN 'v' THEN 'ALTER VIEW %I.%I OWNER TO @admin@'  -- as it is already; LOCK would lock its tables alike
                      ELSE 'LOCK TABLE ONLY %I.%I IN SHARE ROW EXCLUSIVE MODE' END, n.nspname, c.relname)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'dbanon' AND c.relkind IN ('r', 'v') AND c.relname !~ '_[0-9]'
            OR n.nspname = 'published' AND c.relname IN ('releases', 'parts', 'columns', 'left_out', 'atoms')
        ORDER BY c.relkind, c.oid
    LOOP
        EXECUTE statement;
    END LOOP;
EXCEPTION WHEN lock_not_available THEN
    PERFORM pg_temp.refuse_use();
END
$$;
