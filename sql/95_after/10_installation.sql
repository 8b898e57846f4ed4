-- Says what is left of the roles that the database had before, and records those it has. The keys are drawn by the server (a default).

SET LOCAL client_min_messages = notice;

DO $$
DECLARE
    before text;
    held bigint;
BEGIN
    SELECT ins.role_prefix INTO before FROM dbanon.installation ins WHERE ins.role_prefix <> '@prefix@';
    SELECT count(*) INTO held
    FROM pg_shdepend dep JOIN pg_roles rol ON rol.oid = dep.refobjid
    JOIN pg_database pgd ON pgd.datname = current_database() AND pgd.oid = dep.dbid
    WHERE dep.refclassid = 'pg_authid'::regclass
        AND rol.rolname IN (before || '_admin', before || '_operator', before || '_worker', before || '_analyst');
    IF held > 0 THEN
        RAISE WARNING 'Roles %_* own or may still use % in this database.', before, dbanon_internal.format_quantity(held, 'other thing')
            USING ERRCODE = 'DA018';
    END IF;
END
$$;

-- A revision may have written a marked row again. Without a mark it counts as marked, until it is below.
UPDATE dbanon.installation ins SET mark = NULL
WHERE ins.mark = dbanon_internal.make_mark(nullif(current_setting('dbanon.marked_by', true), '')::xid, ins.tableoid);

DO $$
DECLARE
    marked CONSTANT boolean := dbanon_internal.is_marked();
    forked CONSTANT boolean := dbanon_internal.is_forked();
BEGIN
    INSERT INTO dbanon.installation (role_prefix, database_oid, server_identifier)
    SELECT '@prefix@', pgd.oid, current_setting('dbanon.server_identifier')::bigint FROM pg_database pgd WHERE pgd.datname = current_database()
    ON CONFLICT (one) DO UPDATE SET role_prefix = excluded.role_prefix, database_oid = excluded.database_oid,
        server_identifier = excluded.server_identifier;
    -- Only where it was marked before: an upgrade of a restored database must not make it pass for the original.
    IF marked THEN
        PERFORM dbanon_internal.write_mark(CASE WHEN NOT forked THEN dbanon_internal.read_whereabouts() END);
    END IF;
    IF forked IS NULL THEN
        RAISE WARNING 'Nothing can be published before role @admin@ can read which server this is. `SELECT * FROM dbanon.health` or `dbanon check` has the remedy.'
            USING ERRCODE = 'DA018';
    END IF;
END
$$;
