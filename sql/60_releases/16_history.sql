-- A database that went back in time. One that was restored, copied, rewound or failed over does not know what was published since: it
-- publishes nothing until an administrator has said it. Lost releases become rows of dbanon.release without a run, which composition
-- takes for releases to all analysts, of all people, that stand alone.

CREATE OR REPLACE FUNCTION dbanon_internal.read_whereabouts() RETURNS text
LANGUAGE sql VOLATILE PARALLEL RESTRICTED CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- The timeline is that of the log being written: the control file has the new one only once a checkpoint has ended.
    SELECT format('server %s, database %s, timeline %s', s.system_identifier, d.oid,
                  CASE WHEN pg_is_in_recovery() THEN (SELECT c.timeline_id FROM pg_control_checkpoint() c)
                       ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer END)
    FROM pg_control_system() s CROSS JOIN pg_database d WHERE d.datname = current_database()
$$;
COMMENT ON FUNCTION dbanon_internal.read_whereabouts IS
'Which server, database and timeline this is: a restored, copied, rewound or failed-over database has another.';

CREATE OR REPLACE FUNCTION dbanon_internal.make_mark(writer xid, relation oid) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('transaction %s, table %s, releases %s', writer, relation, (SELECT count(*) FROM ONLY dbanon.release))
$$;
COMMENT ON FUNCTION dbanon_internal.make_mark IS
'What a dump carries and cannot reproduce: which transaction wrote the row of dbanon.installation, into which table, and how many releases there are.';

CREATE OR REPLACE FUNCTION dbanon_internal.is_marked() RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- VACUUM keeps the number of the transaction, also with FREEZE and FULL. So does pg_upgrade, with the number of the table.
    SELECT coalesce(bool_and(coalesce(ins.mark = dbanon_internal.make_mark(ins.xmin, ins.tableoid), true)), NOT EXISTS (
        SELECT FROM ONLY dbanon.release)) FROM ONLY dbanon.installation ins
$$;
COMMENT ON FUNCTION dbanon_internal.is_marked IS
'Whether dbanon itself wrote the row of dbanon.installation where it is, or has not marked it yet: one that a restore wrote has another mark.';

CREATE OR REPLACE FUNCTION dbanon_internal.write_mark(here text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    writer xid;
BEGIN
    -- Only the row says whether a savepoint has a number of its own. What is written next has the same.
    UPDATE ONLY dbanon.installation ins SET published_from = coalesce(here, ins.published_from) RETURNING ins.xmin INTO writer;
    UPDATE ONLY dbanon.installation ins SET mark = dbanon_internal.make_mark(writer, ins.tableoid);
    DELETE FROM dbanon.unbroken WHERE here IS NOT NULL;
    INSERT INTO dbanon.unbroken (place) SELECT here WHERE here IS NOT NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.write_mark IS
'Marks the row of dbanon.installation, and writes down where the database is, unless that is NULL: for publications, upgrades and
dbanon.confirm_history alone, since a trigger would also mark what a restore inserts.';

CREATE OR REPLACE FUNCTION dbanon_internal.is_forked() RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    here text;
    before text;
BEGIN
    IF NOT dbanon_internal.is_marked() THEN
        RETURN true;
    END IF;
    -- What published nothing may be copied within its server, as a template is.
    SELECT whe.here, CASE WHEN EXISTS (SELECT FROM ONLY dbanon.release) THEN ins.published_from
                          ELSE regexp_replace(ins.published_from, 'database \d+', substring(whe.here, 'database \d+')) END
        INTO here, before FROM dbanon_internal.read_whereabouts() whe (here) LEFT JOIN ONLY dbanon.installation ins ON true;
    IF before IS NULL OR before = here THEN
        RETURN false;
    ELSIF split_part(before, ',', 1) = split_part(here, ',', 1) OR split_part(before, ',', 2) <> split_part(here, ',', 2) THEN
        RETURN true;
    END IF;
    -- The same tables on another server: pg_upgrade leaves that. Files that were copied from a running server, rewound or promoted before it have
    -- lost this row: a server empties the table when it recovers. Aurora does not, and a standby cannot read it.
    RETURN NOT pg_is_in_recovery() AND (to_regproc('pg_catalog.aurora_version') IS NOT NULL OR NOT EXISTS (
        SELECT FROM ONLY dbanon.unbroken unb JOIN ONLY dbanon.installation ins ON ins.published_from = unb.place));
EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR object_not_in_prerequisite_state THEN
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.is_forked IS
'Whether a restore wrote what is known of releases, or the last of them was published by another server, in another database or on another timeline;
null where that cannot be read.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_history() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    forked CONSTANT boolean := dbanon_internal.is_forked();
    strays CONSTANT record := dbanon_internal.find_strays();
    message text;
BEGIN
    IF forked IS NULL THEN
        BEGIN
            PERFORM dbanon_internal.read_whereabouts();
        EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR object_not_in_prerequisite_state THEN
            message := SQLERRM;
        END;
        RAISE EXCEPTION 'Role @admin@ must be able to read which server this is, or a restored database could not be distinguished from its original. '
                        'It cannot, and nothing was published.'
            USING ERRCODE = 'DA020', DETAIL = format('dbanon reads the system identifier and the timeline. The server said: %s.', message),
                  HINT = 'As a superuser: GRANT EXECUTE ON FUNCTION pg_control_system(), pg_control_checkpoint(), pg_current_wal_lsn(), '
                         'pg_walfile_name(pg_lsn) TO @admin@. On Amazon Aurora: set rds.logical_replication to 1 for the cluster.';
    ELSIF forked THEN
        RAISE EXCEPTION 'After a restore, a copy or a failover an administrator must list all publications that the state of this database does not have. No '
            'administrator has, and nothing was published.'
            USING ERRCODE = 'DA020',
                  DETAIL = CASE WHEN NOT dbanon_internal.is_marked() THEN 'Its tables were restored from a dump, or changed by hand.'
                      ELSE format('The last publication or upgrade was on %s. This is %s.', (SELECT ins.published_from FROM ONLY dbanon.installation ins),
                                  dbanon_internal.read_whereabouts()) END,
                  HINT = 'Look for "dbanon: published" in the log of the server that was published from. If nothing was published since: '
                         'SELECT dbanon.confirm_history(''[]'', ''why that is certain''). Otherwise give the objects of these lines in an array.';
    ELSIF strays.named IS NOT NULL THEN
        RAISE EXCEPTION 'Each table and view of a release must belong to one that dbanon knows. % do not, and nothing was published.', strays.named
            USING ERRCODE = 'DA020', DETAIL = 'A restore over a newer state left them. Readers may have read them.',
                  HINT = format('Once the publications since the dump are listed with dbanon.confirm_history: %s', strays.remedy);
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_history IS
'Refuses to publish from a database that went back in time until dbanon.confirm_history was called, and beside rows of releases that it does not know.';

CREATE OR REPLACE FUNCTION dbanon_internal.note_publication() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET "TimeZone" = 'UTC'
AS $$
BEGIN
    -- What dbanon.confirm_history takes. It holds nothing of people, and stays where the database does not.
    RAISE LOG 'dbanon: published %', (
        SELECT jsonb_build_object('from', ins.published_from, 'release_id', rel.release_id, 'name', rel.name, 'population', pop.name,
                                  'dataset', dat.name,
            'since', lower(rel.span), 'until', upper(rel.span), 'reach_s', extract(epoch FROM rel.reach), 'digest', encode(rel.digest, 'hex'))
        FROM ONLY dbanon.installation ins CROSS JOIN ONLY dbanon.release rel
        JOIN ONLY dbanon.run run ON run.run_id = rel.run_id
        JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
        JOIN ONLY dbanon.population pop ON pop.population_id = dat.population_id
        WHERE rel.release_id = NEW.release_id);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.note_publication IS 'Writes a publication into the server''s log when it is committed.';

CREATE OR REPLACE FUNCTION dbanon_internal.parse_lost_releases(published jsonb) RETURNS TABLE (
    name text, population text, span tstzrange, reach_s double precision, digest bytea)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF jsonb_typeof(published) IS DISTINCT FROM 'array'
        OR EXISTS (SELECT FROM jsonb_array_elements(published) ele WHERE jsonb_typeof(ele) <> 'object' OR NOT ele ?& ARRAY['since', 'until']
                       OR ele - ARRAY['from', 'release_id', 'name', 'population', 'dataset', 'since', 'until', 'reach_s', 'digest'] <> '{}') THEN
        RAISE EXCEPTION 'The list of publications must be an array of objects with since and until, and with population, name, reach_s and digest '
            'where they are known. Got something else.'
            USING ERRCODE = 'DA011', DETAIL = 'Each object stands after "dbanon: published" in a line of the server''s log.',
                  HINT = 'Give ''[]'' if nothing was published, otherwise objects as in ''[{"since": "2026-11-01Z", "until": "2026-11-02Z"}]''.';
    END IF;
    RETURN QUERY
        SELECT coalesce(ele.name, 'lost'), ele.population, tstzrange(ele.since, ele.until), ele.reach_s,
            decode(coalesce(ele.digest, ''), 'hex')
        FROM jsonb_to_recordset(published) ele (
            name text, population text, since timestamptz, until timestamptz, reach_s double precision, digest text)
        WHERE ele.since IS NOT NULL OR ele.until IS NOT NULL;  -- one without rows says nothing
EXCEPTION WHEN data_exception THEN
    RAISE EXCEPTION 'Times must be such as 2026-11-01T00:00Z, since before until, reach_s a number and digest hexadecimal. Got something else.'
        USING ERRCODE = 'DA011', DETAIL = 'Publications are given as the server''s log has them.', HINT = 'Correct it and call again.';
END
$$;
COMMENT ON FUNCTION dbanon_internal.parse_lost_releases IS
'Reads the lost releases that dbanon.confirm_history is given. Raises an error if they are not written as in the server''s log.';

CREATE OR REPLACE FUNCTION dbanon.confirm_history(published jsonb, reason text) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET lock_timeout = '30s'
AS $$
DECLARE
    lost record;
    populations bigint[];
    own bigint;
    entered bigint := 0;
BEGIN
    PERFORM dbanon_internal.demand_reason('The history of a database', reason);
    PERFORM dbanon_internal.lock_releases();
    FOR lost IN SELECT che.* FROM dbanon_internal.parse_lost_releases(published) che LOOP
        PERFORM dbanon_internal.demand_release_name(lost.name);
        IF isempty(lost.span) OR NOT coalesce(isfinite(lower(lost.span)) AND isfinite(upper(lost.span)) AND lost.reach_s IS DISTINCT FROM 'NaN'
                                              AND coalesce(lost.reach_s, 0) BETWEEN 0 AND 31536000, false) THEN
            RAISE EXCEPTION 'A release must have a since before its until, both finite, and a reach_s from 0 to 31536000. Got others for %.', lost.name
                USING ERRCODE = 'DA011', DETAIL = 'All its people are taken to be in it from since to until.', HINT = 'Correct it and call again.';
        END IF;
        -- Whose people a release shows that names no population is not known: it may be anybody's.
        populations := ARRAY(SELECT pop.population_id FROM ONLY dbanon.population pop
                             WHERE lost.population IS NULL OR pop.name = lost.population ORDER BY 1);
        IF populations = '{}' THEN
            -- Entered for a population that a typing error made, it would be compared with nothing.
            RAISE EXCEPTION 'The population of a publication must exist. There is none named %.', dbanon_internal.quote_text(lost.population)
                USING ERRCODE = 'DA001', DETAIL = 'Looked in dbanon.population.',
                      HINT = 'Correct the name, or leave it out, so that the release counts for every population. If the population was made after the '
                             'state that this database has, load a dataset of it first, then call again.';
        END IF;
        FOREACH own IN ARRAY populations LOOP
            -- It counts as withdrawn: nobody can read it here. Where its reach is not known, it is as great as that of others.
            INSERT INTO dbanon.release (name, population_id, digest, rows, withdrawn_at, withdrawn_by, span, reach)
                SELECT lost.name, own, lost.digest, 0, now(), session_user, lost.span, make_interval(secs => coalesce(lost.reach_s, greatest(
                    900, dbanon_internal.find_settle_s(own),
                    (SELECT max((run.params ->> (met.traits ->> 'oldest'))::double precision)
                     FROM ONLY dbanon.run run JOIN ONLY dbanon.method met ON met.name = run.method
                     JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
                     WHERE dat.population_id = own))));
            entered := entered + 1;
        END LOOP;
    END LOOP;
    INSERT INTO dbanon.audit (action, detail)
        SELECT 'confirm_history', jsonb_build_object(
            'was', ins.published_from, 'is', dbanon_internal.read_whereabouts(), 'lost', entered, 'reason', confirm_history.reason)
        FROM ONLY dbanon.installation ins;
    PERFORM dbanon_internal.write_mark(dbanon_internal.read_whereabouts());
    RETURN entered;
END
$$;
COMMENT ON FUNCTION dbanon.confirm_history IS
'Tells dbanon which releases were published after the state of a database that was restored, copied, rewound or failed over. Until it is called, such
a database
publishes nothing. Each release becomes a row of dbanon.releases without a run. Later runs are compared with it as with a release that all analysts
have read, that speaks of all people of its population from since to until, and that stands alone. A run that comes near it is published only with a
reason. For administrators.
Arguments:
- published: a JSON array. [] says that nothing was published. Otherwise give the objects of the lines "dbanon: published" in the log of the server.
  Objects with since and until do as well. They may have population (without it, the release is entered once for each population), name, reach_s (how
  many seconds around it others are compared with it) and digest.
- reason: why the list is complete, in three words or more. It is recorded.
Returns: how many releases it entered.
Raises: DA001 for a population that does not exist, DA002, DA011, DA013.
Example: SELECT dbanon.confirm_history(''[]'', ''failover, nothing published meanwhile'').';
