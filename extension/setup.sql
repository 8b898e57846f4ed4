-- The members of the extension. The three functions run with the rights of their caller, and a superuser owns them: no
-- other login can put one beside them, so what a superuser calls here is what these files hold.

CREATE OR REPLACE FUNCTION dbanon_setup.script(from_revision text DEFAULT NULL, role_prefix text DEFAULT 'dbanon') RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $dbanon_setup$
DECLARE
    mark record;
    made text := dbanon_setup.marked(from_revision);
BEGIN
    IF role_prefix !~ '^(?!pg_)[a-z][a-z0-9_]{0,39}$' THEN
        RAISE EXCEPTION 'A role prefix must be lower-case letters, digits and underscores, start with a letter, not with pg_, and '
                        'have at most 40 characters. Got %.', quote_literal(left(role_prefix, 60))
            USING ERRCODE = 'DA001', DETAIL = 'The roles of dbanon are called <prefix>_admin and so on.', HINT = 'Choose another with role_prefix => ....';
    END IF;
    FOR mark IN
        SELECT '@postgis@' AS name, (SELECT '"' || replace(n.nspname, '"', '""') || '"' FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
                                     WHERE e.extname = 'postgis') AS text
        UNION ALL SELECT '@prefix@', role_prefix
        UNION ALL SELECT '@' || purpose || '@', role_prefix || '_' || purpose
        FROM unnest(ARRAY['admin', 'operator', 'worker', 'analyst']) purpose
    LOOP
        made := replace(made, mark.name, mark.text);
    END LOOP;
    RETURN made;
END
$dbanon_setup$;
COMMENT ON FUNCTION dbanon_setup.script(text, text) IS
'The whole text that dbanon_setup.install runs, to be read first, or run through psql on a server without these files.
from_revision: what the database has already; null: nothing.  role_prefix: of the names of the roles.  Returns SQL.
Example: SELECT dbanon_setup.script();';

CREATE OR REPLACE FUNCTION dbanon_setup.install(role_prefix text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $dbanon_setup$
DECLARE
    before text := current_setting('role');
    there boolean;
    revision text;
    recorded text;
BEGIN
    -- The text may say it as well; here it is before anything of the database is read.
    PERFORM pg_advisory_xact_lock(@lock@);
    -- Nothing in dbanon's schemas is read unless a superuser, the caller or an admin role of dbanon's owns it.
    SELECT r.rolsuper OR r.rolname = session_user OR NOT r.rolcanlogin AND starts_with(shobj_description(r.oid, 'pg_authid'), 'dbanon: ')
        INTO there FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner WHERE c.oid = to_regclass('dbanon.alembic_version');
    IF NOT there THEN
        RAISE EXCEPTION 'The schemas of dbanon must be its own. Another role owns dbanon.alembic_version.'
            USING ERRCODE = 'DA004', DETAIL = 'Nothing was changed.', HINT = 'Remove it, or give dbanon another database.';
    ELSIF there THEN
        SELECT version_num INTO revision FROM dbanon.alembic_version;
        SELECT i.role_prefix INTO recorded FROM dbanon.installation i;
        IF revision > '@revision@' THEN
            RAISE EXCEPTION 'Schema dbanon is at revision %, and this extension knows those up to @revision@.', revision
                USING ERRCODE = 'DA004', DETAIL = 'Nothing was changed.', HINT = 'Install newer files of the extension, and ALTER EXTENSION dbanon UPDATE.';
        END IF;
    END IF;
    EXECUTE dbanon_setup.script(revision, coalesce(install.role_prefix, recorded, 'dbanon'));
    PERFORM set_config('role', before, true);
    RETURN '@revision@';
END
$dbanon_setup$;
COMMENT ON FUNCTION dbanon_setup.install(text) IS
'Makes dbanon in this database, or brings it up to date: roles, schemas, tables, functions, rights. Safe to repeat. All that
it makes are ordinary objects of the admin role, which is no superuser; pg_dump carries them, and DROP EXTENSION leaves them.
role_prefix: of the names of the roles; the first call chooses, later ones keep it.  Returns the revision.
Raises DA001, DA004.  Example: SELECT dbanon_setup.install();';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA dbanon_setup FROM PUBLIC;
GRANT USAGE ON SCHEMA dbanon_setup TO pg_database_owner;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA dbanon_setup TO pg_database_owner;
