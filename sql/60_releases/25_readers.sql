-- Who may read a release: all analysts, or roles of the server that are named for it. Operators read every release.

CREATE OR REPLACE FUNCTION dbanon_internal.find_unfit_reader(readers text[]) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN cardinality(readers) = 0 THEN 'an empty list'
                ELSE (SELECT coalesce(dbanon_internal.quote_text(ele.name), 'NULL') || CASE
                          WHEN ele.name IS NULL THEN ''
                          -- The server takes it for every login, whatever quotes it is in.
                          WHEN ele.name = 'public' THEN ', which is every login'
                          WHEN rol.rolname IS NULL THEN ', which is no role'
                          WHEN rol.rolsuper THEN ', a superuser'
                          WHEN ele.name = '@analyst@' THEN ', all analysts, beside others'
                          ELSE ', a role of dbanon''s own' END
                      FROM unnest(readers) ele (name) LEFT JOIN pg_roles rol ON rol.rolname = ele.name
                      WHERE rol.rolname IS NULL OR rol.rolsuper OR ele.name IN ('@admin@', '@operator@', '@worker@')
                          OR (ele.name = '@analyst@' AND '@analyst@' <> ANY (readers))
                      ORDER BY ele.name LIMIT 1)
           END
$$;
COMMENT ON FUNCTION dbanon_internal.find_unfit_reader IS 'Names the first of some readers that cannot be one, and why; NULL if all can.';

CREATE OR REPLACE FUNCTION dbanon_internal.choose_readers(name text, replace boolean, readers text[]) RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    chosen CONSTANT text[] := coalesce(choose_readers.readers, (
        SELECT rel.readers FROM ONLY dbanon.release rel
        WHERE choose_readers.replace AND rel.name = choose_readers.name AND rel.withdrawn_at IS NULL LIMIT 1));
    unfit CONSTANT text := dbanon_internal.find_unfit_reader(chosen);
BEGIN
    IF unfit IS NOT NULL THEN
        RAISE EXCEPTION 'The readers of a release must be roles of this server, neither superusers nor dbanon''s own, or @analyst@ alone. Got %.', unfit
            USING ERRCODE = 'DA011', DETAIL = 'Superusers and operators read all releases. Without readers, all analysts read it.',
                  HINT = 'Make a role, CREATE ROLE auditors, grant it to those who are to read the release, and name it: readers => ARRAY[''auditors''].';
    END IF;
    RETURN CASE WHEN chosen IS NOT NULL THEN nullif(ARRAY(SELECT DISTINCT ele FROM unnest(chosen) ele ORDER BY ele), ARRAY['@analyst@']) END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.choose_readers IS
'Chooses the roles that are to read a release, NULL for all analysts: those given, otherwise those of the live release that it replaces or is to be
part of. Raises an error if a role cannot be a reader.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_readers_argument(readers text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT ', readers => ARRAY[' || string_agg(quote_literal(n), ', ' ORDER BY n) || ']' FROM unnest(readers) n
$$;
COMMENT ON FUNCTION dbanon_internal.build_readers_argument IS
'Some readers as an argument of a call of dbanon.publish that a hint shows; NULL where there are none.';

CREATE OR REPLACE FUNCTION dbanon_internal.grant_readers(release_id bigint, replaced bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    release dbanon.release;
    reader text;
BEGIN
    SELECT rel.* INTO STRICT release FROM ONLY dbanon.release rel WHERE rel.release_id = grant_readers.release_id;
    EXECUTE format('REVOKE ALL ON TABLE published.%I FROM PUBLIC', release.name);
    -- Where single roles read it, or read what it replaces, no other role keeps a right that was given by hand or by default.
    IF release.readers IS NOT NULL
        OR EXISTS (SELECT FROM ONLY dbanon.release rel WHERE rel.release_id = grant_readers.replaced AND rel.readers IS NOT NULL) THEN
        PERFORM dbanon_internal.revoke_rights(format('published.%I', release.name));
        EXECUTE format('GRANT ALL ON TABLE published.%I TO @admin@', release.name);
    END IF;
    IF release.readers IS NULL THEN
        EXECUTE format('GRANT SELECT ON TABLE published.%I TO @analyst@', release.name);
        RETURN;
    END IF;
    EXECUTE format('GRANT SELECT ON TABLE published.%I TO @operator@', release.name);
    FOREACH reader IN ARRAY release.readers LOOP
        EXECUTE format('GRANT SELECT ON TABLE published.%I, published.releases, published.parts, published.columns, published.left_out, published.surfaces, published.atoms TO %I', release.name, reader);
        EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA published, published_inner TO %I', reader);
        EXECUTE format('GRANT USAGE ON SCHEMA published, published_inner TO %I', reader);
    END LOOP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.grant_readers IS
'Lets the readers of a live release, and beside them operators alone, read its view and the views that list releases; where all
analysts read it and what it replaces, rights given by hand stay.';

CREATE OR REPLACE FUNCTION dbanon_internal.dismiss_readers() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    reader text;
BEGIN
    FOR reader IN
        SELECT rol.rolname
        FROM pg_class cla CROSS JOIN LATERAL aclexplode(cla.relacl) acl JOIN pg_roles rol ON rol.oid = acl.grantee
        WHERE cla.oid = to_regclass('published.releases') AND rol.rolname NOT IN ('@admin@', '@operator@', '@analyst@')
            AND NOT EXISTS (
                SELECT FROM pg_class cla CROSS JOIN LATERAL aclexplode(cla.relacl) acl
                WHERE cla.relnamespace = 'published'::regnamespace AND cla.relname NOT IN ('releases', 'parts', 'columns', 'left_out', 'surfaces', 'atoms')
                    AND acl.grantee = rol.oid)
    LOOP
        EXECUTE format('REVOKE ALL ON TABLE published.releases, published.parts, published.columns, published.left_out, published.surfaces, published.atoms FROM %I CASCADE', reader);
        EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA published, published_inner FROM %I CASCADE', reader);
        EXECUTE format('REVOKE USAGE ON SCHEMA published, published_inner FROM %I CASCADE', reader);
    END LOOP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.dismiss_readers IS
'Takes what readers of single releases may do in schema published from those who can read no release there any more, so that
their roles can be dropped.';
