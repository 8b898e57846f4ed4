-- Guards, revisions and the audit hold also where a superuser has set session_replication_role to replica.

DO $$
DECLARE
    trigger record;
BEGIN
    FOR trigger IN
        SELECT t.tgrelid::regclass AS of_table, t.tgname AS name
        FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE c.relnamespace = 'dbanon'::regnamespace AND c.relkind <> 'v' AND NOT t.tgisinternal AND t.tgenabled <> 'A'
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', trigger.of_table, trigger.name);
    END LOOP;
END
$$;
