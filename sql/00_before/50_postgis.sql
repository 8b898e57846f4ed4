-- PostGIS, in a schema in which no other login can put a function beside its own, or has put one.

CREATE OR REPLACE FUNCTION pg_temp.demand_closed(schema text) RETURNS void LANGUAGE plpgsql
AS $$
DECLARE
    everybody text;
    others text;
    owner text;
    planted text;
    drops text;
BEGIN
    SELECT string_agg(who.role, ', ' ORDER BY who.role), string_agg(who.role, ', ' ORDER BY who.role) FILTER (WHERE NOT who.owns),
        string_agg(who.role, ', ') FILTER (WHERE who.owns)
    INTO everybody, others, owner
    FROM (
        SELECT coalesce(quote_ident(rol.rolname), 'PUBLIC') AS role, coalesce(rol.oid = nsp.nspowner, false) AS owns
        FROM pg_namespace nsp JOIN pg_database pgd ON pgd.datname = current_database()
        CROSS JOIN LATERAL (
            SELECT acl.grantee FROM aclexplode(nsp.nspacl) acl WHERE acl.privilege_type = 'CREATE' UNION SELECT nsp.nspowner) gra
        LEFT JOIN pg_roles rol ON rol.oid = gra.grantee
        WHERE nsp.nspname = demand_closed.schema AND (rol.oid IS NULL OR NOT rol.rolsuper AND rol.oid <> pgd.datdba
            AND rol.rolname NOT IN ('pg_database_owner', '@admin@'))
    ) who;
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
        SELECT 'pg_proc'::regclass, pro.oid, pro.proname, pro.proowner, false FROM pg_proc pro
        WHERE pro.pronamespace = to_regnamespace(quote_ident(schema))
        UNION ALL SELECT 'pg_operator'::regclass, ope.oid, ope.oprname, ope.oprowner, false FROM pg_operator ope
            WHERE ope.oprnamespace = to_regnamespace(quote_ident(schema))
        UNION ALL SELECT 'pg_type'::regclass, typ.oid, typ.typname, typ.typowner, typ.typtype = 'd' AND typ.typcategory = 'S' FROM pg_type typ
            WHERE typ.typnamespace = to_regnamespace(quote_ident(schema)) AND typ.typrelid = 0 AND typ.typelem = 0
    ), part AS (
        SELECT thing.* FROM thing JOIN pg_depend dep ON dep.classid = thing.classid AND dep.objid = thing.objid AND dep.deptype = 'e'
        JOIN pg_extension ext ON dep.refclassid = 'pg_extension'::regclass AND ext.oid = dep.refobjid AND ext.extname = 'postgis'
    )
    SELECT string_agg(format('%s %s of %s', ide.type, ide.identity, quote_ident(rol.rolname)), ', ' ORDER BY ide.type, ide.identity),
        string_agg(format('DROP %s %s', upper(ide.type), ide.identity), '; ' ORDER BY ide.type, ide.identity)
    INTO planted, drops
    FROM thing JOIN pg_roles rol ON rol.oid = thing.owner JOIN pg_database pgd ON pgd.datname = current_database()
    CROSS JOIN LATERAL pg_identify_object(thing.classid, thing.objid, 0) ide
    WHERE (thing.text_domain OR thing.name IN (SELECT part.name FROM part))
        AND NOT rol.rolsuper AND rol.oid <> pgd.datdba AND rol.rolname NOT IN ('pg_database_owner', '@admin@')
        AND NOT EXISTS (SELECT FROM part WHERE part.classid = 'pg_type'::regclass AND part.name = 'geometry' AND part.owner = thing.owner);
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
    IF NOT EXISTS (SELECT FROM pg_extension ext WHERE ext.extname = 'postgis') THEN
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
