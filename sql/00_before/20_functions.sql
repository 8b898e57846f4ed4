-- What is asked more than once. These functions are the session's own, and go with the transaction or at its end.

-- Everything in dbanon's schemas with its owner, and every role that may create there. Trusted is an owner that a superuser may rely on;
-- what follows something else needs no owner of its own.
CREATE OR REPLACE FUNCTION pg_temp.list_owners() RETURNS TABLE (kind text, name text, owner name, trusted boolean, follows boolean)
LANGUAGE sql STABLE AS $$
    WITH ours AS (
        SELECT nsp.oid, nsp.nspname, nsp.nspowner, nsp.nspacl FROM pg_namespace nsp WHERE nsp.nspname IN ('dbanon', 'dbanon_internal', 'published', 'published_inner')
    ), thing (classid, objid, owner) AS (
        SELECT 'pg_namespace'::regclass, ours.oid, ours.nspowner FROM ours
        UNION ALL SELECT 'pg_class'::regclass, cla.oid, cla.relowner FROM pg_class cla JOIN ours ON ours.oid = cla.relnamespace
            WHERE cla.relkind NOT IN ('i', 'I', 't', 'c')
        UNION ALL SELECT 'pg_proc'::regclass, pro.oid, pro.proowner FROM pg_proc pro JOIN ours ON ours.oid = pro.pronamespace
        UNION ALL SELECT 'pg_type'::regclass, typ.oid, typ.typowner FROM pg_type typ JOIN ours ON ours.oid = typ.typnamespace
            LEFT JOIN pg_class cla ON cla.oid = typ.typrelid WHERE typ.typelem = 0 AND coalesce(cla.relkind, 'c') = 'c'
        UNION ALL SELECT 'pg_operator'::regclass, ope.oid, ope.oprowner FROM pg_operator ope JOIN ours ON ours.oid = ope.oprnamespace
    )
    SELECT own.kind, own.name, coalesce(rol.rolname, 'PUBLIC'), coalesce(@trusted@, false), own.follows
    FROM (
        SELECT ide.type AS kind, ide.identity AS name, thing.owner, thing.classid = 'pg_class'::regclass AND ide.type = 'sequence' AS follows
        FROM thing CROSS JOIN LATERAL pg_identify_object(thing.classid, thing.objid, 0) ide
        UNION ALL
        -- The functions of triggers, which are called when their tables are written to.
        SELECT 'trigger', format('%I on %s, which calls %s', tri.tgname, tri.tgrelid::regclass, tri.tgfoid::regprocedure), pro.proowner, true
        FROM pg_trigger tri JOIN pg_class cla ON cla.oid = tri.tgrelid JOIN ours ON ours.oid = cla.relnamespace
        JOIN pg_proc pro ON pro.oid = tri.tgfoid
        WHERE NOT tri.tgisinternal
        UNION ALL
        SELECT 'right to create in schema', quote_ident(ours.nspname), acl.grantee, true
        FROM ours CROSS JOIN LATERAL aclexplode(ours.nspacl) acl
        WHERE acl.privilege_type = 'CREATE'
    ) own
    LEFT JOIN pg_roles rol ON rol.oid = own.owner
$$;

-- The roles of a prefix, with the comments by which they are known.
CREATE OR REPLACE FUNCTION pg_temp.list_roles(prefix text) RETURNS TABLE (role text, comment text)
LANGUAGE sql IMMUTABLE AS $$
    SELECT prefix || '_' || w.role, 'dbanon: ' || w.purpose
    FROM (VALUES
        @purposes@
    ) w (role, purpose)
$$;

-- Whether a role is one of dbanon's and nothing else; true of one that is not there.
CREATE OR REPLACE FUNCTION pg_temp.is_plain(role text) RETURNS boolean LANGUAGE sql STABLE
AS $$
    SELECT coalesce(
        (SELECT NOT (r.rolcanlogin OR r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication OR r.rolbypassrls)
             AND coalesce(shobj_description(r.oid, 'pg_authid') IN (SELECT o.comment FROM pg_temp.list_roles('') o), false)
         FROM pg_roles r WHERE r.rolname = is_plain.role), true)
$$;

-- The other databases of the server in which roles own something, or have a right.
CREATE OR REPLACE FUNCTION pg_temp.list_other_databases(roles text[]) RETURNS text[] LANGUAGE sql STABLE
AS $$
    SELECT array_agg(DISTINCT d.datname::text ORDER BY d.datname::text)
    FROM pg_shdepend s JOIN pg_roles r ON r.oid = s.refobjid
    JOIN pg_database d ON d.oid = s.dbid OR s.classid = 'pg_database'::regclass AND d.oid = s.objid
    WHERE s.refclassid = 'pg_authid'::regclass AND r.rolname = ANY (roles) AND d.datname <> current_database()
$$;

-- A statement for each right that the roles of a prefix have in this database: that gives it to those of another, or takes it from them.
CREATE OR REPLACE FUNCTION pg_temp.list_rights(prefix text, other text) RETURNS TABLE (given text, taken text)
LANGUAGE sql STABLE AS $$
    SELECT format('GRANT %s ON %s TO %I%s', gra.what, gra.thing, other || substr(gra.role, length(prefix) + 1),
                  CASE WHEN gra.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END),
        format('REVOKE %s ON %s FROM %I CASCADE', gra.what, gra.thing, gra.role)
    FROM (
        SELECT concat(acl.privilege_type, ' (' || quote_ident(obj.part) || ')') AS what, format('%s %s', obj.kind, obj.name) AS thing,
            rol.rolname::text AS role, acl.is_grantable
        FROM (
            SELECT CASE cla.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind, cla.oid::regclass::text AS name,
                NULL::name AS part, cla.relacl AS acl
            FROM pg_class cla WHERE cla.relacl IS NOT NULL
            UNION ALL
            SELECT 'TABLE', att.attrelid::regclass::text, att.attname, att.attacl FROM pg_attribute att WHERE att.attacl IS NOT NULL
            UNION ALL
            SELECT 'ROUTINE', pro.oid::regprocedure::text, NULL, pro.proacl FROM pg_proc pro WHERE pro.proacl IS NOT NULL
            UNION ALL
            SELECT 'SCHEMA', quote_ident(nsp.nspname), NULL, nsp.nspacl FROM pg_namespace nsp WHERE nsp.nspacl IS NOT NULL
            UNION ALL
            SELECT 'DATABASE', quote_ident(pgd.datname), NULL, pgd.datacl FROM pg_database pgd WHERE pgd.datname = current_database()
        ) obj
        CROSS JOIN LATERAL aclexplode(obj.acl) acl
        JOIN pg_roles rol ON rol.oid = acl.grantee
        WHERE rol.rolname IN (SELECT our.role FROM pg_temp.list_roles(prefix) our)
    ) gra
$$;

CREATE OR REPLACE FUNCTION pg_temp.revoke_rights(prefix text) RETURNS void LANGUAGE plpgsql
AS $$
DECLARE
    statement text;
BEGIN
    FOREACH statement IN ARRAY ARRAY(SELECT r.taken FROM pg_temp.list_rights(prefix, prefix) r) LOOP
        EXECUTE statement;
    END LOOP;
END
$$;

-- What shows every login something about private tables, or writes large objects. Locks show which backends work; counters are exact and
-- move with every statement; PostGIS's functions on statistics and indexes ask for no right on the table, and answer with its true extent
-- and with estimates for any box; large objects fill the disk and stay. Ours is what the login may take and give.
CREATE OR REPLACE FUNCTION pg_temp.list_public_things()
RETURNS TABLE (kind text, name text, privilege text, ours boolean, grantees text[]) LANGUAGE sql STABLE AS $$
    SELECT obj.kind, obj.name, obj.privilege, pg_has_role(obj.owner, 'USAGE'),
        ARRAY(SELECT coalesce(rol.rolname, 'PUBLIC')::text FROM aclexplode(obj.acl) acl LEFT JOIN pg_roles rol ON rol.oid = acl.grantee
              WHERE acl.privilege_type = obj.privilege)
    FROM (
        SELECT 'TABLE' AS kind, cla.oid::regclass::text AS name, 'SELECT' AS privilege, cla.relowner AS owner,
            coalesce(cla.relacl, acldefault('r', cla.relowner)) AS acl
        FROM pg_class cla
        WHERE cla.relnamespace = 'pg_catalog'::regnamespace
            AND (cla.relname = 'pg_locks' OR cla.relname ~
                 '^pg_stat(io|_xact)?_((all|sys|user)_(tables|indexes|sequences|functions)|database(_conflicts)?)$')
        UNION ALL
        SELECT 'FUNCTION', pro.oid::regprocedure::text, 'EXECUTE', pro.proowner, coalesce(pro.proacl, acldefault('f', pro.proowner))
        FROM pg_proc pro
        WHERE (pro.pronamespace = 'pg_catalog'::regnamespace AND pro.proname ~ '^pg_stat_get_(?!subscription)'
               AND oidvectortypes(pro.proargtypes) = 'oid')
            OR pro.oid = 'pg_lock_status()'::regprocedure
            OR (pro.pronamespace = 'pg_catalog'::regnamespace
                AND pro.proname IN ('lo_creat', 'lo_create', 'lo_from_bytea', 'lo_put', 'lowrite'))
            OR (pro.pronamespace = (SELECT ext.extnamespace FROM pg_extension ext WHERE ext.extname = 'postgis') AND pro.proname IN (
                '_postgis_stats', '_postgis_selectivity', '_postgis_join_selectivity', '_postgis_index_extent',
                'st_estimatedextent'))
    ) obj
    ORDER BY obj.kind DESC, obj.name
$$;

-- Gives PUBLIC what was taken from it, and takes it from the roles that were given it instead. The recorded names are looked up among
-- those above, and no recorded text is run. Names that are gone are left out.
CREATE OR REPLACE FUNCTION pg_temp.give_back(prefix text) RETURNS void LANGUAGE plpgsql
AS $$
DECLARE
    changed record;
BEGIN
    IF EXISTS (SELECT FROM dbanon.changed_right cri JOIN pg_temp.list_public_things() pub ON pub.name = cri.object WHERE NOT pub.ours) THEN
        RAISE EXCEPTION 'Rights that a superuser took from PUBLIC must be given back by one. This login is none, and nothing was changed.'
            USING ERRCODE = 'DA023', HINT = 'Run it again as a superuser.';
    END IF;
    FOR changed IN
        SELECT pub.kind, pub.name, pub.privilege, cri.grantee FROM dbanon.changed_right cri JOIN pg_temp.list_public_things() pub ON pub.name = cri.object
        ORDER BY cri.object, cri.grantee
    LOOP
        IF changed.grantee = 'PUBLIC' THEN
            EXECUTE format('GRANT %s ON %s %s TO PUBLIC', changed.privilege, changed.kind, changed.name);
        ELSE
            EXECUTE format('REVOKE %s ON %s %s FROM %I', changed.privilege, changed.kind, changed.name,
                           CASE changed.grantee WHEN 'pg_monitor' THEN 'pg_monitor' ELSE prefix || '_' || changed.grantee END);
        END IF;
    END LOOP;
    DELETE FROM dbanon.changed_right;
END
$$;

-- Locks out other upgrades and removals until the transaction ends. Any login can take the lock, so it is not waited for for ever.
CREATE OR REPLACE FUNCTION pg_temp.wait_for_turn() RETURNS void LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(@upgrade_lock@);
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'Another upgrade of this database did not end within %, and nothing was changed. Its lock is held by %.',
        current_setting('lock_timeout'), coalesce((
            SELECT string_agg(format('%s (process %s)', act.usename, loc.pid), ', ')
            FROM pg_locks loc LEFT JOIN pg_stat_activity act ON act.pid = loc.pid
            WHERE loc.locktype = 'advisory' AND loc.granted AND loc.objsubid = 1
                AND (loc.classid::bigint << 32) | loc.objid::bigint = @upgrade_lock@
                AND loc.database = (SELECT pgd.oid FROM pg_database pgd WHERE pgd.datname = current_database())
        ), 'a session that has just ended')
        USING ERRCODE = 'DA023', HINT = 'End that session, or run it again.';
END
$$;

-- Refuses because another session holds the roles, which all databases of the server share.
CREATE OR REPLACE FUNCTION pg_temp.refuse_roles() RETURNS void LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'The roles @prefix@_* were in use for % by %, such as the upgrade of another database. Nothing was changed.',
        current_setting('lock_timeout'), coalesce((
            SELECT string_agg(DISTINCT format('%s (process %s)', act.usename, loc.pid), ', ')
            FROM pg_locks loc JOIN pg_stat_activity act ON act.pid = loc.pid
            WHERE loc.relation IN ('pg_authid'::regclass, 'pg_auth_members'::regclass) AND loc.mode = 'RowExclusiveLock'
                AND loc.pid <> pg_backend_pid()
        ), 'another session')
        USING ERRCODE = 'DA023', HINT = 'Run it again when that session has ended.';
END
$$;

-- Refuses because other sessions use dbanon's tables or views, and names these.
CREATE OR REPLACE FUNCTION pg_temp.refuse_use() RETURNS void LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'dbanon''s tables and views were in use for % by %. Nothing was changed.', current_setting('lock_timeout'), coalesce((
            SELECT string_agg(DISTINCT format('%s (process %s)', s.usename, s.pid), ', ')
            FROM pg_locks l JOIN pg_stat_activity s ON s.pid = l.pid JOIN pg_class c ON c.oid = l.relation
            JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname IN ('dbanon', 'dbanon_internal', 'published', 'published_inner') AND l.pid <> pg_backend_pid()
        ), 'a session that has ended')
        USING ERRCODE = 'DA023', HINT = 'End that transaction and run it again.';
END
$$;
