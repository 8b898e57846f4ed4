-- The four roles, which belong to the server and not to the database: so their names are chosen for each.

DO $$
DECLARE
    one record;
    ours CONSTANT text[] := ARRAY(SELECT our.role FROM pg_temp.list_roles('@prefix@') our);
    chosen boolean := false;
    used text;
    members text;
BEGIN
    FOR one IN SELECT * FROM pg_temp.list_roles('@prefix@') our WHERE NOT EXISTS (SELECT FROM pg_roles rol WHERE rol.rolname = our.role) LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', one.role);
            EXECUTE format('COMMENT ON ROLE %I IS %L', one.role, one.comment);
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;  -- the upgrade of another database has just made it
            WHEN lock_not_available THEN PERFORM pg_temp.refuse_roles();
        END;
    END LOOP;

    -- A copy (restored, cloned) has the record of its original, whose members would have their rights in it as well: it chooses again.
    IF to_regclass('dbanon.installation') IS NOT NULL THEN
        SELECT ins.role_prefix = '@prefix@' AND ins.database_oid = pgd.oid
            AND ins.server_identifier::text = current_setting('dbanon.server_identifier') INTO chosen
        FROM ONLY dbanon.installation ins, pg_database pgd WHERE pgd.datname = current_database();
    END IF;
    IF chosen OR @share_roles@ THEN RETURN; END IF;

    -- Of two first upgrades at once (of two databases) the second waits here for the first, and then sees its roles: both write the row of
    -- the admin role, which all databases share. A login that may not do that goes on.
    FOR i IN 1..10 LOOP
        BEGIN
            ALTER ROLE @admin@ NOLOGIN;
            EXIT;
        EXCEPTION
            WHEN insufficient_privilege THEN EXIT;
            WHEN lock_not_available THEN PERFORM pg_temp.refuse_roles();
            WHEN internal_error THEN NULL;  -- "tuple concurrently updated": the other one has committed
        END;
    END LOOP;

    used := array_to_string(pg_temp.list_other_databases(ours), ', ');
    WITH RECURSIVE inside (role, member) AS (
        SELECT rol.rolname, aut.member FROM pg_roles rol JOIN pg_auth_members aut ON aut.roleid = rol.oid
        WHERE rol.rolname = ANY (ours)
        UNION
        SELECT inside.role, aut.member
        FROM inside JOIN pg_auth_members aut ON aut.roleid = inside.member
        WHERE inside.member::regrole::text <> ALL (ours)
    )
    SELECT string_agg(mem.member, ', ' ORDER BY mem.member) INTO members
    FROM (
        SELECT format('%s (%s)', rol.rolname, string_agg(inside.role, ', ' ORDER BY inside.role)) AS member
        FROM inside JOIN pg_roles rol ON rol.oid = inside.member
        WHERE NOT rol.rolsuper AND rol.rolname <> ALL (ours || ARRAY[current_user, session_user]::text[])
        GROUP BY rol.rolname
    ) mem;
    IF used IS NOT NULL OR members IS NOT NULL THEN
        RAISE EXCEPTION 'The roles of a database must not let in logins that were granted them for another one. %. Members: %.',
            coalesce(format('Database %s of this server uses @prefix@_*', used), 'Roles @prefix@_* are on this server already'),
            coalesce(members, 'none yet')
            USING ERRCODE = 'DA021', HINT = 'Choose other names with --role-prefix NAME, or let the same logins in with --share-roles.';
    END IF;
END
$$;
