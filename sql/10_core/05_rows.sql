-- The rows of runs: which tables hold them.

CREATE OR REPLACE FUNCTION dbanon_internal.run_tables() RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT ARRAY['cloak', 'membership']
$$;
COMMENT ON FUNCTION dbanon_internal.run_tables() IS
'The one list of the private tables that hold what runs wrote, each with a column run_id: guards, deletion and grants follow it.';
