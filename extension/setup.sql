-- The extension: a schema of its own with three functions, made in the same way at CREATE EXTENSION and at ALTER EXTENSION ... UPDATE.
-- They run with the rights of their caller, and a superuser owns them: no other login can put a function beside them, so
-- what a superuser calls here is what these files hold. A schema of this name that another login made is refused.

CREATE SCHEMA IF NOT EXISTS dbanon_setup;
COMMENT ON SCHEMA dbanon_setup IS 'Makes dbanon in this database, and brings it up to date.';

-- Those of an earlier version may have other arguments. Nothing depends on them.
DO $$
DECLARE
    old regprocedure;
BEGIN
    FOR old IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'dbanon_setup'::regnamespace LOOP
        EXECUTE format('DROP FUNCTION %s', old);
    END LOOP;
END
$$;

CREATE FUNCTION dbanon_setup.marked() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $dbanon_setup$
SELECT $dbanon_text$@text@$dbanon_text$
$dbanon_setup$;
COMMENT ON FUNCTION dbanon_setup.marked() IS
'The text that makes dbanon, with marks for the names of roles, for the schema of PostGIS and for what is asked for.';

CREATE FUNCTION dbanon_setup.script(
    role_prefix text DEFAULT NULL, share_roles boolean DEFAULT false, restrict_public boolean DEFAULT NULL) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $dbanon_setup$
DECLARE
    mark record;
    postgis name := (SELECT nsp.nspname FROM pg_extension ext JOIN pg_namespace nsp ON nsp.oid = ext.extnamespace WHERE ext.extname = 'postgis');
    prefix text := role_prefix;
    made text := dbanon_setup.marked();
BEGIN
    -- What another login has put there is not read.
    IF prefix IS NULL AND EXISTS (
        SELECT FROM pg_class cla JOIN pg_roles rol ON rol.oid = cla.relowner WHERE cla.oid = to_regclass('dbanon.installation') AND @trusted@)
    THEN
        SELECT ins.role_prefix INTO prefix FROM dbanon.installation ins;
    END IF;
    prefix := coalesce(prefix, 'dbanon');
    IF prefix !~ '^(?!pg_)[a-z][a-z0-9_]{0,39}$' THEN
        RAISE EXCEPTION 'A role prefix must be lower-case letters, digits and underscores, start with a letter, not with pg_, and '
                        'have at most 40 characters. Got %.', quote_literal(left(prefix, 60))
            USING ERRCODE = 'DA001', DETAIL = 'The roles of dbanon are called <prefix>_admin and so on.',
                  HINT = 'Choose another with role_prefix => ....';
    END IF;
    IF postgis ~ '["''\\$@%[:cntrl:]]' THEN
        RAISE EXCEPTION 'The schema of PostGIS must have a name without quotes, backslashes, $, @, %% and control characters. Got %.',
                quote_literal(postgis)
            USING ERRCODE = 'DA001', DETAIL = 'Nothing was changed.', HINT = 'Rename that schema.';
    END IF;
    FOR mark IN
        SELECT '@postgis@' AS name, CASE postgis WHEN 'public' THEN 'public' ELSE format('"%s"', postgis) END AS text
        UNION ALL SELECT '@postgis_name@', quote_literal(postgis)
        UNION ALL SELECT '@prefix@', prefix
        UNION ALL SELECT format('@%s@', purpose), format('%s_%s', prefix, purpose)
        FROM unnest(ARRAY['admin', 'operator', 'worker', 'analyst']) purpose
        UNION ALL SELECT '@move_roles@', (role_prefix IS NOT NULL)::text
        UNION ALL SELECT '@share_roles@', coalesce(share_roles, false)::text
        UNION ALL SELECT '@restrict_public@', coalesce(restrict_public::text, 'NULL')
        UNION ALL SELECT '@since@', 'NULL'
    LOOP
        made := replace(made, mark.name, mark.text);
    END LOOP;
    RETURN made;
END
$dbanon_setup$;
COMMENT ON FUNCTION dbanon_setup.script(text, boolean, boolean) IS
'The whole text that dbanon_setup.install runs, to be read first, or run through psql in a database without the extension.
Its arguments are those of dbanon_setup.install.  Returns SQL.  Raises DA001.  Example: SELECT dbanon_setup.script();';

CREATE FUNCTION dbanon_setup.install(
    role_prefix text DEFAULT NULL, share_roles boolean DEFAULT false, restrict_public boolean DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $dbanon_setup$
DECLARE
    before text := current_setting('role');
    code text;
    message text;
    detail text;
    hint text;
    context text;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' OR current_setting('transaction_read_only')::boolean THEN
        RAISE EXCEPTION 'dbanon must be installed in a transaction that is read committed and may write. This one is %.',
                concat_ws(' and ', current_setting('transaction_isolation'),
                          CASE WHEN current_setting('transaction_read_only')::boolean THEN 'read only' END)
            USING ERRCODE = 'DA023', DETAIL = 'Nothing was changed.',
                  HINT = 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT dbanon_setup.install(); COMMIT;';
    END IF;
    BEGIN
        EXECUTE dbanon_setup.script(role_prefix, share_roles, restrict_public);
    EXCEPTION WHEN OTHERS OR query_canceled THEN  -- or the error's context would be the whole text, a megabyte
        GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
            hint = PG_EXCEPTION_HINT, context = PG_EXCEPTION_CONTEXT;
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message,
            DETAIL = coalesce(nullif(detail, ''), 'Nothing was changed.' || CASE WHEN code NOT LIKE 'DA%' THEN ' ' || left(context, 300) ELSE '' END),
            -- Options of the command are arguments here.
            HINT = coalesce(nullif(regexp_replace(hint, '--([a-z]+)-([a-z]+)', '\1_\2', 'g'), ''),
                            'SELECT dbanon_setup.script() is the text that was run.');
    END;
    PERFORM set_config('role', before, true);
    RETURN '@head@';
END
$dbanon_setup$;
COMMENT ON FUNCTION dbanon_setup.install(text, boolean, boolean) IS
'Makes dbanon in this database, or brings it up to date: roles, schemas, tables, functions, rights. Safe to repeat. All that
it makes are ordinary objects of the admin role, which is no superuser: pg_dump carries them, and DROP EXTENSION leaves them.
role_prefix: of the names of the roles; the first call chooses, later ones keep it.  share_roles: let in the members that
roles of these names have already.  restrict_public: take from PUBLIC what shows locks and counters, or give it back; null:
as it was chosen.  Returns the revision.  Raises DA001, and what the text raises.  Example: SELECT dbanon_setup.install();';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA dbanon_setup FROM PUBLIC;
GRANT USAGE ON SCHEMA dbanon_setup TO pg_database_owner;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA dbanon_setup TO pg_database_owner;
