-- Taking a release from those who read it: to withdraw it, or to put another in its place.

CREATE OR REPLACE FUNCTION dbanon.readers_of(name text, standing boolean) RETURNS TABLE (
    pid integer, login text, superuser boolean, may_end boolean)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
BEGIN
    PERFORM pg_stat_clear_snapshot();  -- or sessions are those of when the transaction first asked
    RETURN QUERY
    WITH RECURSIVE made (classid, objid, objsubid) AS (  -- the view; and all that goes when it is dropped
        SELECT 'pg_class'::regclass::oid, to_regclass(format('published.%I', readers_of.name))::oid, 0
        UNION
        SELECT n.classid, n.objid, n.objsubid
        FROM made m
        CROSS JOIN LATERAL (
            SELECT d.classid, d.objid, d.objsubid FROM pg_depend d
            WHERE d.refclassid = m.classid AND d.refobjid = m.objid AND (m.objsubid = 0 OR d.refobjsubid = m.objsubid)
            UNION ALL
            SELECT 'pg_class'::regclass, w.ev_class, 0 FROM pg_rewrite w
            WHERE m.classid = 'pg_rewrite'::regclass AND w.oid = m.objid AND w.ev_type = '1'
        ) n
        WHERE standing
    ), held (relation) AS (
        SELECT m.objid FROM made m WHERE m.classid = 'pg_class'::regclass
        UNION ALL  -- the view's own table: to take a view is to take what it reads
        SELECT d.refobjid FROM pg_rewrite w
        JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid AND d.refclassid = 'pg_class'::regclass
        WHERE w.ev_class = to_regclass(format('published.%I', readers_of.name))
        UNION ALL  -- tables that only lose a part
        SELECT w.ev_class FROM made m JOIN pg_rewrite w ON m.classid = 'pg_rewrite'::regclass AND w.oid = m.objid
        UNION ALL
        SELECT f.adrelid FROM made m JOIN pg_attrdef f ON m.classid = 'pg_attrdef'::regclass AND f.oid = m.objid
        UNION ALL
        SELECT c.conrelid FROM made m JOIN pg_constraint c ON m.classid = 'pg_constraint'::regclass AND c.oid = m.objid
        UNION ALL
        SELECT t.tgrelid FROM made m JOIN pg_trigger t ON m.classid = 'pg_trigger'::regclass AND t.oid = m.objid
        UNION ALL
        SELECT i.indrelid FROM made m JOIN pg_index i ON m.classid = 'pg_class'::regclass AND i.indexrelid = m.objid
    )
    SELECT s.pid, coalesce(s.usename::text, 'a login that was dropped'), coalesce(r.rolsuper, false),
        coalesce(NOT r.rolsuper, true) AND (pg_has_role('pg_signal_backend', 'USAGE') OR pg_has_role(s.usesysid, 'USAGE'))
    FROM pg_stat_activity s
    LEFT JOIN pg_roles r ON r.oid = s.usesysid
    -- The server's own processes have no login, and give way by themselves.
    WHERE s.usesysid IS NOT NULL AND s.pid <> pg_backend_pid() AND EXISTS (
        SELECT FROM pg_locks k
        WHERE k.pid = s.pid AND k.granted AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
          AND CASE k.locktype
                  WHEN 'relation' THEN k.relation IN (SELECT h.relation FROM held h)
                  WHEN 'object' THEN (k.classid, k.objid) IN (SELECT m.classid, m.objid FROM made m)
              END)
    ORDER BY s.pid;
END
$$;
COMMENT ON FUNCTION dbanon.readers_of(text, boolean) IS
'The sessions that keep a live release from being taken away. Part of dbanon.end_readers and refuse_readers. Takes: name;
standing: also those that hold nothing but what was made of it, which keeps it from being dropped. Returns: pid; login;
superuser; may_end: whether dbanon may end the session. Raises: nothing. Example: SELECT * FROM
dbanon.readers_of(''cabs_june'', true).';

CREATE OR REPLACE FUNCTION dbanon.refuse_readers(name text, release_id bigint, end_readers boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    readers text;
    superusers boolean;
    by_hand text;
BEGIN
    IF end_readers THEN
        SELECT string_agg(format('%s (process %s)', r.login, r.pid), ', '), bool_and(r.superuser),
               string_agg(format('SELECT pg_terminate_backend(%s)', r.pid), '; ')
            INTO readers, superusers, by_hand FROM dbanon.readers_of(refuse_readers.name, true) r WHERE NOT r.may_end;
        IF superusers THEN
            RAISE EXCEPTION 'Nobody may be reading a release that is taken away, and only a superuser may end a superuser''s session. '
                            'Release % is being read by %.', name, readers
                USING ERRCODE = 'DA013', DETAIL = 'The release is as it was.',
                      HINT = format('Have them end their transaction, or have a superuser end it: %s. Then try again.', by_hand);
        ELSIF readers IS NOT NULL THEN
            RAISE EXCEPTION 'Nobody may be reading a release that is taken away, and role @admin@ may not end sessions on this '
                            'server. Release % is being read by %.', name, readers
                USING ERRCODE = 'DA013', DETAIL = 'The release is as it was. Role @admin@ is no member of pg_signal_backend.',
                      HINT = format('Have a superuser run GRANT pg_signal_backend TO @admin@, or end them: %s. Then try again.',
                                    by_hand);
        END IF;
    END IF;
    SELECT string_agg(format('%s (process %s)', r.login, r.pid), ', ') INTO readers FROM dbanon.readers_of(refuse_readers.name, true) r;
    RAISE EXCEPTION 'Nobody may be reading a release that is taken away. Release % is being read by %.',
            name, coalesce(readers, 'somebody')
        USING ERRCODE = 'DA013', DETAIL = 'Waited for 5 seconds; the release is as it was.',
              HINT = CASE WHEN end_readers THEN 'Try again; and look for prepared transactions, which no session holds: SELECT * FROM '
                                                'pg_prepared_xacts.'
                          ELSE format('Try again, or end their sessions: %s.', coalesce(
                              (SELECT format('SELECT dbanon.publish(%s, %L, replace => true%s, end_readers => true)', l.run_id, l.name,
                                             ', allow_overlap => true, reason => ' || quote_literal(l.overlap_reason))
                               FROM dbanon.release l WHERE l.release_id = refuse_readers.release_id),
                              format('SELECT dbanon.unpublish(%L, end_readers => true)', name))) END;
END
$$;
COMMENT ON FUNCTION dbanon.refuse_readers(text, bigint, boolean) IS
'Says who keeps a live release from being taken away, and what to type to end their sessions. Part of dbanon.take_view and
drop_view. Takes: name; release_id of what takes its place, or NULL; end_readers: whether that was tried. Returns: never.
Raises: DA013. Example: SELECT dbanon.refuse_readers(''cabs_june'', NULL, false).';

CREATE OR REPLACE FUNCTION dbanon.end_readers(name text, release_id bigint, standing boolean) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    until CONSTANT timestamptz := clock_timestamp() + interval '5 s';
    reader record;
    ended integer := 0;
BEGIN
    IF EXISTS (SELECT FROM dbanon.readers_of(end_readers.name, standing) r WHERE NOT r.may_end) THEN
        PERFORM dbanon.refuse_readers(end_readers.name, end_readers.release_id, true);  -- before anybody is ended for nothing
    END IF;
    FOR reader IN SELECT r.pid, r.login FROM dbanon.readers_of(end_readers.name, standing) r LOOP
        -- Others may be done by now; and the processes of a parallel query go with the session they work for.
        CONTINUE WHEN NOT EXISTS (SELECT FROM dbanon.readers_of(end_readers.name, standing) r WHERE r.pid = reader.pid);
        CONTINUE WHEN NOT pg_terminate_backend(reader.pid);
        ended := ended + 1;
        RAISE NOTICE 'Ended the session of % (process %).', reader.login, reader.pid;
        WHILE clock_timestamp() < until AND EXISTS (SELECT FROM pg_locks k WHERE k.pid = reader.pid) LOOP
            PERFORM pg_sleep(0.005);
        END LOOP;
    END LOOP;
    IF ended > 0 THEN
        INSERT INTO dbanon.audit (action, dataset, run_id, release, detail)
            SELECT 'end_readers', d.name, l.run_id, l.name, jsonb_build_object('sessions', ended)
            FROM dbanon.release l JOIN dbanon.run r ON r.run_id = l.run_id JOIN dbanon.dataset d ON d.dataset_id = r.dataset_id
            WHERE l.name = end_readers.name AND l.release_id IS DISTINCT FROM end_readers.release_id
            ORDER BY l.release_id DESC LIMIT 1;
    END IF;
    RETURN ended;
END
$$;
COMMENT ON FUNCTION dbanon.end_readers(text, bigint, boolean) IS
'Ends the sessions that keep a live release from being taken away, and writes to dbanon.audit how many. Part of
dbanon.take_view and drop_view. Takes: name; release_id of what takes its place, or NULL; standing: as for dbanon.readers_of.
Returns: how many were ended; a notice names each. Raises: DA013, before any is ended, if one of them may not be: that of a
superuser, or any where @admin@ is no member of pg_signal_backend. Example: SELECT dbanon.end_readers(''cabs_june'',
NULL, false).';

CREATE OR REPLACE FUNCTION dbanon.take_from_readers(
    statement text, name text, release_id bigint, end_readers boolean, standing boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- More than once where readers are ended: some may come between that and the lock, behind which new ones wait.
    FOR attempt IN 1..CASE WHEN end_readers THEN 3 ELSE 1 END LOOP
        IF end_readers THEN
            PERFORM dbanon.end_readers(name, release_id, standing);
        END IF;
        BEGIN
            EXECUTE format(statement, name);
            RETURN;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            NULL;
        END;
    END LOOP;
    PERFORM dbanon.refuse_readers(name, release_id, end_readers);
END
$$;
COMMENT ON FUNCTION dbanon.take_from_readers(text, text, bigint, boolean, boolean) IS
'Runs a statement that needs a live release for itself; the caller sets how long it waits. Part of dbanon.take_view and drop_view.
Takes: statement, with %I for the view; name; release_id of what takes its place, or NULL; end_readers: end the sessions in its
way; standing: also those that hold nothing but what was made of it. Returns: nothing. Raises: DA013, naming who reads it.
Example: part of dbanon.take_view.';

CREATE OR REPLACE FUNCTION dbanon.take_view(name text, release_id bigint, end_readers boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
-- While this waits for those who read the view now, everybody else waits for this.
SET lock_timeout = '5s'
AS $$
BEGIN
    IF to_regclass(format('published.%I', name)) IS NOT NULL THEN
        PERFORM dbanon.take_from_readers('LOCK TABLE published.%I IN ACCESS EXCLUSIVE MODE', name, release_id, end_readers, false);
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon.take_view(text, bigint, boolean) IS
'Takes a live release from whoever reads it, until the transaction ends; gives up after 5 seconds, so that an open
transaction of one reader does not keep all the others waiting. Part of dbanon.publish and drop_view. Takes: name; release_id
of what takes its place, or NULL; end_readers: end the sessions that read it. Returns: nothing. Raises: DA013, naming who reads
it. Example: SELECT dbanon.take_view(''cabs_june'', NULL, false).';

CREATE OR REPLACE FUNCTION dbanon.drop_view(name text, release_id bigint, end_readers boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $$
BEGIN
    PERFORM dbanon.take_view(name, release_id, end_readers);
    -- What analysts made of it goes too: a withdrawal must not wait for those it is withdrawn from.
    PERFORM dbanon.take_from_readers('DROP VIEW IF EXISTS published.%I CASCADE', name, release_id, end_readers, true);
END
$$;
COMMENT ON FUNCTION dbanon.drop_view(text, bigint, boolean) IS
'Drops the view of a live release, and what others made of it: views, materialized views, functions, columns of its row type.
Part of dbanon.unpublish and publish. Takes: name; release_id of what takes its place, or NULL; end_readers: end the sessions
that read it or what was made of it. Returns: nothing; a notice names what goes. Raises: DA013, naming who reads it. Example:
SELECT dbanon.drop_view(''cabs_june'', NULL, false).';

CREATE OR REPLACE FUNCTION dbanon.replace_view(release_id bigint, name text, names text, end_readers boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    columns text[];
BEGIN
    -- Names and types of the columns of the new table, then of the view that is there.
    columns := ARRAY(
        SELECT string_agg(quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum)
        FROM (VALUES (1, format('dbanon.release_%s', release_id)), (2, format('published.%I', name))) v (ord, relation)
        LEFT JOIN pg_attribute a ON a.attrelid = to_regclass(v.relation) AND a.attnum > 0 AND NOT a.attisdropped
        GROUP BY v.ord ORDER BY v.ord);
    PERFORM dbanon.take_view(replace_view.name, replace_view.release_id, replace_view.end_readers);
    IF columns[1] <> columns[2] THEN
        PERFORM dbanon.drop_view(replace_view.name, replace_view.release_id, replace_view.end_readers);
        RAISE NOTICE 'The columns of % are others now: views on it, and grants on it to others than @analyst@, are gone.', name;
    END IF;
    EXECUTE format('CREATE OR REPLACE VIEW published.%I AS SELECT %s FROM ONLY dbanon.release_%s', name, names, release_id);
END
$$;
COMMENT ON FUNCTION dbanon.replace_view(bigint, text, text, boolean) IS
'Puts the table of a new release behind the view of an old one. Views on it and grants stay where the columns are the same. Part
of dbanon.publish. Takes: release_id; name of the view; names of the columns, quoted; end_readers: end the sessions that read
it. Returns: nothing. Raises: DA013 if it is being read; notices of what had to go. Example: SELECT
dbanon.replace_view(2, ''cabs_june'', ''record_id, seq'', false).';

CREATE OR REPLACE FUNCTION dbanon.lock_releases() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '30s'
AS $$
DECLARE
    others text;
BEGIN
    LOCK TABLE dbanon.release IN SHARE ROW EXCLUSIVE MODE;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    SELECT string_agg(DISTINCT format('%s (process %s)', s.usename, k.pid), ', ') INTO others
        FROM pg_locks k JOIN pg_stat_activity s ON s.pid = k.pid
        WHERE k.relation = 'dbanon.release'::regclass AND k.granted AND k.mode IN ('ShareRowExclusiveLock', 'RowExclusiveLock')
            AND k.pid <> pg_backend_pid();
    RAISE EXCEPTION 'Releases must be published and withdrawn one after the other. At it meanwhile: %.', coalesce(others, 'somebody else')
        USING ERRCODE = 'DA013', DETAIL = 'Nothing has changed.', HINT = 'Try again when their transaction has ended.';
END
$$;
COMMENT ON FUNCTION dbanon.lock_releases() IS
'Keeps others from publishing and withdrawing until the transaction ends. Part of dbanon.publish and unpublish. Takes:
nothing. Returns: nothing. Raises: DA013 if somebody keeps it for 30 s, or waits for this session. Example: SELECT
dbanon.lock_releases().';

CREATE OR REPLACE FUNCTION dbanon.unpublish(name text, end_readers boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    live dbanon.release;
BEGIN
    PERFORM dbanon.check_name(unpublish.name);
    PERFORM dbanon.lock_releases();  -- or the release of this name could be another by the time it is ours
    SELECT l.* INTO live FROM dbanon.release l WHERE l.name = unpublish.name AND l.withdrawn_at IS NULL FOR UPDATE;
    IF live.release_id IS NULL THEN
        RAISE EXCEPTION 'The release to withdraw must be live. There is none named %.', unpublish.name
            USING ERRCODE = 'DA001', DETAIL = 'Looked in dbanon.release.', HINT = 'List the releases: SELECT * FROM dbanon.releases.';
    END IF;
    PERFORM dbanon.drop_view(unpublish.name, NULL, unpublish.end_readers);
    EXECUTE format('DROP TABLE IF EXISTS dbanon.release_%s RESTRICT', live.release_id);
    UPDATE dbanon.release l SET withdrawn_at = now(), withdrawn_by = session_user WHERE l.release_id = live.release_id;
    RETURN live.run_id;
END
$$;
COMMENT ON FUNCTION dbanon.unpublish(text, boolean) IS
'Withdraws a release: drops its view and table. The run, its rows and the entry in dbanon.release stay, because whoever read
the view still knows it. Takes: name; end_readers: end the sessions that read it, or hold what was made of it, instead of
giving up after 5 seconds. Returns: the run it was. Raises: DA001, DA002; DA013 if it is being read, or read by a session that
may not be ended; notices name each session it ended, and other views on it, which are dropped too. Example: SELECT
dbanon.unpublish(''cabs_june'').';
