-- Who computes a run holds an advisory lock on it; a run without a holder is dead.

CREATE OR REPLACE FUNCTION dbanon.run_lock_key(run_id bigint) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT r.lock_key FROM dbanon.run r WHERE r.run_id = run_lock_key.run_id
$$;
COMMENT ON FUNCTION dbanon.run_lock_key(bigint) IS
'The key of the advisory lock that whoever computes or verifies a run holds for as long; drawn at random for each run, because
any login may take any advisory lock whose key it can guess. Takes: run_id. Returns: the key, NULL if there is no such run.
Raises: nothing. Example: SELECT pg_advisory_lock(dbanon.run_lock_key(1)).';

CREATE OR REPLACE FUNCTION dbanon.reap_runs() RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    dead bigint;
    reaped integer := 0;
BEGIN
    FOR dead IN
        SELECT r.run_id FROM dbanon.run r WHERE r.status IN ('running', 'computed') ORDER BY r.run_id
        FOR UPDATE SKIP LOCKED
    LOOP
        -- pg_locks first: this session may hold the lock itself, and would get it a second time.
        CONTINUE WHEN EXISTS (
            SELECT FROM pg_locks l
            WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
              AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
              AND (l.classid::bigint << 32) | l.objid::bigint = dbanon.run_lock_key(dead));
        CONTINUE WHEN NOT pg_try_advisory_xact_lock(dbanon.run_lock_key(dead));
        DELETE FROM dbanon.cloak c WHERE c.run_id = dead;
        DELETE FROM dbanon.membership m WHERE m.run_id = dead;
        UPDATE dbanon.run r
            SET status = 'failed', finished_at = now(), error = 'the process that computed this run went away'
            WHERE r.run_id = dead;
        reaped := reaped + 1;
    END LOOP;
    RETURN reaped;
END
$$;
COMMENT ON FUNCTION dbanon.reap_runs() IS
'Fails every run that is running, or computed and being verified, and whose advisory lock nobody holds; deletes its rows.
Takes: nothing. Returns: how many. Raises: nothing. Example: SELECT dbanon.reap_runs().';
