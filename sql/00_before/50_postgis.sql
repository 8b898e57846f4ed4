-- PostGIS, in a schema in which no other login can put a function beside its own, or has put one.

CREATE OR REPLACE FUNCTION pg_temp.demand_closed(schema text) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    everybody text;
    others text;
    owner text;
    planted text;
    drops text;
BEGIN
    SELECT string_agg(w.role, ', ' ORDER BY w.role), string_agg(w.role, ', ' ORDER BY w.role) FILTER (WHERE NOT w.owns),
        string_agg(w.role, ', ') FILTER (WHERE w.owns)
    INTO everybody, others, owner
    FROM (
        SELECT coalesce(quote_ident(r.rolname), 'PUBLIC') AS role, coalesce(r.oid = n.nspowner, false) AS owns
        FROM pg_namespace n JOIN pg_database d ON d.datname = current_database()
        CROSS JOIN LATERAL (
            SELECT x.grantee FROM aclexplode(n.nspacl) x WHERE x.privilege_type = 'CREATE' UNION SELECT n.nspowner) g
        LEFT JOIN pg_roles r ON r.oid = g.grantee
        WHERE n.nspname = demand_closed.schema AND (r.oid IS NULL OR NOT r.rolsuper AND r.oid <> d.datdba
            AND r.rolname NOT IN ('pg_database_owner', '@admin@'))
    ) w;
    IF everybody IS NOT NULL THEN
        RAISE EXCEPTION 'Only superusers, the database''s owner and @admin@ may create in the schema of PostGIS, or other logins could shadow its '
            'functions. In % % may as well.', quote_ident(schema), everybody
            USING ERRCODE = 'DA023', HINT = format('Run %s.', concat_ws(' and ',
                CASE WHEN owner IS NOT NULL THEN format('`ALTER SCHEMA %I OWNER TO pg_database_owner`', schema) END,
                CASE WHEN others IS NOT NULL THEN format('`REVOKE CREATE ON SCHEMA %I FROM %s`', schema, others) END));
    END IF;

    -- A login may have created something there before it lost the right. Among functions and operators of one name the server takes the
    -- one with the closest argument types: so no other owner's may have a name of PostGIS's, and no call below needs a cast of its literals. Other
    -- names are never called. A call with one argument can also be a cast to a type of that name; to a domain over text, every value can
    -- be cast, which calls its constraint. Its owner can give it any name without the right to create, so it is refused by any name.
    -- That something is a member of an extension proves nothing: an extension's owner can add members. Casts of PostGIS's types to each other
    -- and to pg_catalog's are made by the owner of those types, and operator classes by superusers.
    WITH thing (classid, objid, name, owner, text_domain) AS (
        SELECT 'pg_proc'::regclass, p.oid, p.proname, p.proowner, false FROM pg_proc p WHERE p.pronamespace = to_regnamespace(quote_ident(schema))
        UNION ALL SELECT 'pg_operator'::regclass, x.oid, x.oprname, x.oprowner, false FROM pg_operator x
            WHERE x.oprnamespace = to_regnamespace(quote_ident(schema))
        UNION ALL SELECT 'pg_type'::regclass, y.oid, y.typname, y.typowner, y.typtype = 'd' AND y.typcategory = 'S' FROM pg_type y
            WHERE y.typnamespace = to_regnamespace(quote_ident(schema)) AND y.typrelid = 0 AND y.typelem = 0
    ), part AS (
        SELECT t.* FROM thing t JOIN pg_depend d ON d.classid = t.classid AND d.objid = t.objid AND d.deptype = 'e'
        JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid AND e.extname = 'postgis'
    )
    SELECT string_agg(format('%s %s of %s', i.type, i.identity, quote_ident(r.rolname)), ', ' ORDER BY i.type, i.identity),
        string_agg(format('DROP %s %s', upper(i.type), i.identity), '; ' ORDER BY i.type, i.identity)
    INTO planted, drops
    FROM thing t JOIN pg_roles r ON r.oid = t.owner JOIN pg_database d ON d.datname = current_database()
    CROSS JOIN LATERAL pg_identify_object(t.classid, t.objid, 0) i
    WHERE (t.text_domain OR t.name IN (SELECT o.name FROM part o))
        AND NOT r.rolsuper AND r.oid <> d.datdba AND r.rolname NOT IN ('pg_database_owner', '@admin@')
        AND NOT EXISTS (SELECT FROM part o WHERE o.classid = 'pg_type'::regclass AND o.name = 'geometry' AND o.owner = t.owner);
    IF planted IS NOT NULL THEN
        RAISE EXCEPTION 'Only superusers, the database''s owner and @admin@ may own things that can be taken for a part of PostGIS in its schema, '
            '%. Got %.', quote_ident(schema), planted
            USING ERRCODE = 'DA023', DETAIL = 'It has the name of a part, or is a domain over text, which its owner can give such a name.',
                  HINT = format('Run `%s`, or move the things in use to another schema with ALTER ... SET SCHEMA.', drops);
    END IF;
END
$$;

DO $$
BEGIN
    -- Before it is created as well: what runs then may not find a function of others.
    PERFORM pg_temp.demand_closed(@postgis_name@);
    IF NOT EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'postgis') THEN
        BEGIN
            CREATE EXTENSION postgis SCHEMA @postgis@;
        EXCEPTION WHEN insufficient_privilege OR invalid_schema_name THEN
            RAISE EXCEPTION 'Extension postgis must be in the database. This login may not create it, or there is no schema %.',
                quote_ident(@postgis_name@)
                USING ERRCODE = 'DA023', HINT = 'Run `CREATE EXTENSION postgis` in this database as a superuser, or as the administrator of a managed server.';
        END;
        PERFORM pg_temp.demand_closed(@postgis_name@);
    END IF;
END
$$;
