-- Taking a release from its readers: to withdraw it, or to replace it by another.
--
-- A withdrawn release's view loses its grants, its rows and its name, in this order, and what is left is dropped then or later:
-- a withdrawal depends on no lock but the view's own, whatever others have built on it.

CREATE OR REPLACE FUNCTION dbanon_internal.demand_replacement(end_readers boolean, replace boolean) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF end_readers AND replace IS NOT TRUE THEN
        RAISE EXCEPTION 'A publication must replace a release to end its readers. Got end_readers => true without replace => true.'
            USING ERRCODE = 'DA011', DETAIL = 'A new release has no readers yet.', HINT = 'Add replace => true, or leave end_readers out.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_replacement IS 'Refuses a publication that is to end readers and replaces nothing.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_changers(name text) RETURNS TABLE (pid integer, virtualtransaction text)
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp SET jit = off AS $$
    -- GRANT and REVOKE, which every reader may try, hold no lock on the view, but change its row in the catalog, or that of
    -- its row type; the next change waits until their transaction ends.
    WITH changed AS MATERIALIZED (
        SELECT ver.of, ver.xid, split_part(btrim(ver.ctid::text, '()'), ',', 1)::integer AS page,
            split_part(btrim(ver.ctid::text, '()'), ',', 2)::integer AS tuple,
            age(ver.xid) AS age
        FROM (SELECT 'pg_class'::regclass::oid, cla.xmax, cla.ctid FROM pg_class cla
              WHERE cla.oid = to_regclass(format('published.%I', find_changers.name))
              UNION ALL
              SELECT 'pg_type'::regclass, typ.xmax, typ.ctid FROM pg_type typ
              WHERE typ.typrelid = to_regclass(format('published.%I', find_changers.name))) ver (of, xid, ctid)
        WHERE ver.xid <> '0'
    ), lock AS MATERIALIZED (
        SELECT loc.* FROM pg_locks loc WHERE loc.locktype IN ('transactionid', 'tuple')
    )
    SELECT lock.pid, lock.virtualtransaction
    FROM changed
    JOIN lock ON lock.locktype = 'transactionid' AND lock.transactionid = changed.xid
        OR lock.locktype = 'tuple' AND lock.relation = changed.of AND (lock.page, lock.tuple) = (changed.page, changed.tuple)
            AND lock.database = (SELECT pgd.oid FROM pg_database pgd WHERE pgd.datname = current_database())
    UNION
    -- A savepoint that was released holds no lock: its transaction is one of the readers' that are older.
    SELECT lock.pid, lock.virtualtransaction
    FROM changed
    JOIN lock ON lock.locktype = 'transactionid' AND lock.granted AND lock.mode = 'ExclusiveLock' AND age(lock.transactionid) >= changed.age
    JOIN pg_stat_activity act ON act.pid = lock.pid AND act.datname = current_database()
    JOIN pg_roles rol ON rol.oid = act.usesysid AND NOT rol.rolsuper
        AND (pg_has_role(rol.oid, '@analyst@', 'MEMBER') OR EXISTS (
            SELECT FROM ONLY dbanon.release rel CROSS JOIN LATERAL unnest(rel.readers) ele JOIN pg_roles reader ON reader.rolname = ele
            WHERE rel.name = find_changers.name AND pg_has_role(rol.oid, reader.oid, 'MEMBER')))
        AND NOT (pg_has_role(rol.oid, '@operator@', 'MEMBER') OR pg_has_role(rol.oid, '@worker@', 'MEMBER'))
    WHERE NOT EXISTS (SELECT FROM lock held WHERE held.locktype = 'transactionid' AND held.transactionid = changed.xid AND held.granted)
        AND pg_xact_status((pg_current_xact_id()::text::bigint + age(pg_current_xact_id()::xid) - changed.age)::text::xid8)
            = 'in progress'
$$;
COMMENT ON FUNCTION dbanon_internal.find_changers IS 'The open transactions that have changed the rights on the view of a release, or wait to.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_readers(name text) RETURNS TABLE (pid integer, reader text, may_end boolean, ending text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
    PERFORM pg_stat_clear_snapshot();  -- or sessions are those of when the transaction first asked
    RETURN QUERY
    WITH held AS MATERIALIZED (
        -- Those who wait for it as well: the one ahead in the queue has it next.
        SELECT DISTINCT loc.pid, loc.virtualtransaction FROM pg_locks loc
        WHERE loc.locktype = 'relation' AND loc.relation = to_regclass(format('published.%I', find_readers.name))
            AND loc.database = (SELECT pgd.oid FROM pg_database pgd WHERE pgd.datname = current_database())
        UNION
        SELECT cha.pid, cha.virtualtransaction FROM dbanon_internal.find_changers(find_readers.name) cha
    )
    SELECT act.pid, format('%s (process %s)', coalesce(act.usename::text, 'a login that was dropped'), act.pid),
        coalesce(NOT rol.rolsuper, true) AND (pg_has_role('pg_signal_backend', 'USAGE') OR pg_has_role(act.usesysid, 'USAGE')),
        format('SELECT pg_terminate_backend(%s)', act.pid)
    FROM held
    JOIN pg_stat_activity act ON act.pid = held.pid
    LEFT JOIN pg_roles rol ON rol.oid = act.usesysid
    -- The server's own processes have no login, and those of a parallel query end with the session they work for.
    WHERE act.usesysid IS NOT NULL AND act.leader_pid IS NULL AND act.pid <> pg_backend_pid()
    UNION ALL
    SELECT NULL, format('%s (prepared transaction %L)', pre.owner, pre.gid), false, format('ROLLBACK PREPARED %L', pre.gid)
    FROM held
    -- A prepared transaction's locks have no process; its own number is among them.
    JOIN pg_locks loc ON loc.pid IS NULL AND loc.virtualtransaction = held.virtualtransaction AND loc.locktype = 'transactionid'
    JOIN pg_prepared_xacts pre ON pre.transaction = loc.transactionid
    WHERE held.pid IS NULL
    ORDER BY 1, 2;
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_readers IS 'The sessions and prepared transactions that hold the view of a release, or wait for it.';

CREATE OR REPLACE FUNCTION dbanon_internal.refuse_readers(name text, retry text, end_readers boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    readers text;
    by_hand text;
BEGIN
    -- Who is named may have ended since the lock was refused: the sentence says so instead of naming none.
    SELECT string_agg(rea.reader, ', '), string_agg(rea.ending, '; ') FILTER (WHERE NOT rea.may_end) INTO readers, by_hand
        FROM dbanon_internal.find_readers(refuse_readers.name) rea;
    RAISE EXCEPTION 'Release % is in use by % and cannot be withdrawn yet.',
            name, coalesce(readers, 'sessions that have ended since')
        USING ERRCODE = 'DA013', DETAIL = 'The release is as it was.',
              HINT = CASE WHEN end_readers IS NOT TRUE THEN format('Try again, or end their sessions: %s.', retry)
                          WHEN by_hand IS NULL THEN 'Try again.'
                          ELSE format('Role @admin@ may not end all of these sessions%s. Wait until their transactions end, or have a superuser%s '
                                      'run: %s. Then try again.',
                                      CASE WHEN NOT pg_has_role('pg_signal_backend', 'USAGE') THEN ', since it is no member of pg_signal_backend' END,
                                      CASE WHEN NOT pg_has_role('pg_signal_backend', 'USAGE') THEN ' or a member' END,
                                      by_hand) END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.refuse_readers IS 'Says who keeps a live release from being taken away, and what to type.';

CREATE OR REPLACE FUNCTION dbanon_internal.execute_exclusively(statement text, release_id bigint, end_readers boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
-- While this waits for the present readers of the view, all later readers wait for this.
SET lock_timeout = '5s' AS $$
DECLARE
    until CONSTANT timestamptz := clock_timestamp() + interval '5 s';
    release_name CONSTANT text := (SELECT rel.name FROM dbanon.release rel WHERE rel.release_id = execute_exclusively.release_id);
    taken boolean := false;
    ended text[] := '{}';
BEGIN
    -- To end readers, try for a moment, end those who are there, and try again until the time is over.
    IF end_readers THEN PERFORM set_config('lock_timeout', '100ms', true); END IF;
    LOOP
        BEGIN
            EXECUTE statement;
            taken := true;
        EXCEPTION WHEN lock_not_available OR deadlock_detected OR out_of_memory OR internal_error THEN
            PERFORM pg_sleep(0.01);  -- an internal error is "tuple concurrently updated": by a GRANT
        END;
        EXIT WHEN taken OR end_readers IS NOT TRUE OR clock_timestamp() > until;
        -- All at once: one by one, the first would be back before the last is gone.
        ended := ended || ARRAY(SELECT rea.reader FROM dbanon_internal.find_readers(release_name) rea
                                WHERE CASE WHEN rea.may_end THEN pg_terminate_backend(rea.pid) END);
    END LOOP;
    ended := ARRAY(SELECT DISTINCT ele.reader FROM unnest(ended) ele (reader) ORDER BY ele.reader);
    IF cardinality(ended) > 0 THEN
        -- In the server's log as well: the line of the audit goes with a transaction that is undone.
        RAISE LOG 'dbanon: % ended % that read release %', session_user, dbanon_internal.format_quantity(cardinality(ended), 'session'), release_name;
        RAISE NOTICE 'Ended the sessions that read %: %.', release_name, array_to_string(ended[:20], ', ')
            || CASE WHEN cardinality(ended) > 20 THEN format(' and %s more', cardinality(ended) - 20) ELSE '' END;
        INSERT INTO dbanon.audit (action, dataset, run_id, release, detail)
            SELECT 'end_readers', dat.name, rel.run_id, rel.name, jsonb_build_object('sessions', cardinality(ended))
            FROM dbanon.release rel JOIN dbanon.run run ON run.run_id = rel.run_id JOIN dbanon.dataset dat ON dat.dataset_id = run.dataset_id
            WHERE rel.release_id = execute_exclusively.release_id;
    END IF;
    RETURN taken;
END
$$;
COMMENT ON FUNCTION dbanon_internal.execute_exclusively IS
'Runs a statement that needs the view of a release for itself: waits 5 seconds for its readers; or 100 ms, then ends
their sessions, all at once, and so on for 5 seconds, since a login whose session was ended may be back before this has
the lock.';

CREATE OR REPLACE FUNCTION dbanon_internal.revoke_rights(relation text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given record;
BEGIN
    -- Rights of the relation and of each column, to roles and to PUBLIC; CASCADE takes what was passed on.
    FOR given IN
        SELECT DISTINCT CASE acl.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(acl.grantee)) END AS grantee
        FROM pg_class cla
        CROSS JOIN LATERAL (SELECT coalesce(cla.relacl, acldefault('r', cla.relowner))
                            UNION ALL SELECT att.attacl FROM pg_attribute att WHERE att.attrelid = cla.oid) list (acl)
        CROSS JOIN LATERAL aclexplode(list.acl) acl
        WHERE cla.oid = to_regclass(relation)
    LOOP
        EXECUTE format('REVOKE ALL ON TABLE %s FROM %s CASCADE', relation, given.grantee);
    END LOOP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.revoke_rights IS
'Takes all rights on the view or the table of a release, those on columns, those that others passed on and the owner''s
too; waits for no reader; without rights on the table no view of its owner shows a row of it, whatever it is called, and
no reader can be in the way of that.';

CREATE OR REPLACE FUNCTION dbanon_internal.hide_view(relation text, release_name text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    no_rows text;
BEGIN
    SELECT string_agg(format('NULL::%s AS %I', format_type(att.atttypid, att.atttypmod), att.attname), ', ' ORDER BY att.attnum)
        INTO no_rows FROM pg_attribute att
        WHERE att.attrelid = to_regclass(format('published.%I', release_name)) AND att.attnum > 0;
    IF no_rows IS NULL THEN  -- dropped by hand
        RETURN;
    END IF;
    -- First the rows, then the rights, then the name: whatever fails in between, nothing is shown any more.
    EXECUTE format('CREATE OR REPLACE VIEW published.%I AS SELECT %s WHERE false', release_name, no_rows);
    PERFORM dbanon_internal.revoke_rights(format('published.%I', release_name));
    -- No release can be called this, nor anything in schema dbanon.
    EXECUTE format('ALTER VIEW published.%I RENAME TO withdrawn$%s', release_name, relation);
    EXECUTE format('ALTER VIEW published.withdrawn$%s SET SCHEMA dbanon', relation);
END
$$;
COMMENT ON FUNCTION dbanon_internal.hide_view IS
'Makes the view of a release one without rows and rights, and moves it out of schema published as
dbanon.withdrawn$<its table>: its name is free then, and what others have built on it is empty.';

CREATE OR REPLACE FUNCTION dbanon_internal.replace_view(release_id bigint, replaced bigint, names text, end_readers boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    release dbanon.release;
    query text;
    columns text[];
    in_place boolean;
BEGIN
    SELECT rel.* INTO STRICT release FROM dbanon.release rel WHERE rel.release_id = replace_view.release_id;
    query := format('VIEW published.%I AS SELECT %s FROM ONLY dbanon.release_%s', release.name, names, release_id);
    -- Names and types of the columns of the new table, then of the view that is there.
    columns := ARRAY(
        SELECT string_agg(quote_ident(att.attname) || ' ' || format_type(att.atttypid, att.atttypmod), ', ' ORDER BY att.attnum)
        FROM (VALUES (1, format('dbanon.release_%s', release_id)), (2, format('published.%I', release.name))) val (ord, relation)
        LEFT JOIN pg_attribute att ON att.attrelid = to_regclass(val.relation) AND att.attnum > 0 AND NOT att.attisdropped
        GROUP BY val.ord ORDER BY val.ord);
    -- With the same columns the view can be redefined where it is, and what was built on it stays.
    in_place := columns[1] IS NOT DISTINCT FROM columns[2];
    -- A session that may not be ended keeps the release: then no other session is ended in vain.
    IF (end_readers AND EXISTS (SELECT FROM dbanon_internal.find_readers(release.name) rea WHERE NOT rea.may_end))
        OR NOT dbanon_internal.execute_exclusively(CASE WHEN in_place THEN 'CREATE OR REPLACE ' || query
                                             ELSE format('SELECT dbanon_internal.hide_view(''release_%s'', %L)', replaced, release.name) END,
                                             replaced, end_readers) THEN
        PERFORM dbanon_internal.refuse_readers(release.name, format(
            'SELECT dbanon.publish(%s, %L, replace => true%s, end_readers => true%s)', release.run_id, release.name,
            ', allow_overlap => true, reason => ' || quote_literal(release.overlap_reason),
            (SELECT dbanon_internal.build_readers_argument(coalesce(release.readers, ARRAY['@analyst@'])) FROM ONLY dbanon.release rel
             WHERE rel.release_id = replaced AND rel.readers IS DISTINCT FROM release.readers)), end_readers);
    END IF;
    -- The old view was moved away above; what was built on it went with it, which its owners have to know.
    IF NOT in_place THEN
        EXECUTE 'CREATE ' || query;
        RAISE NOTICE 'The columns of % have changed: views on it, and grants on it to roles other than its readers, were dropped.', release.name;
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.replace_view IS
'Puts the table of a new release behind the view of an old one; or replaces the view, if its columns differ; views on it and grants stay where they
are the same. Raises an error if readers keep the old one.';

CREATE OR REPLACE FUNCTION dbanon_internal.lock_releases() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET lock_timeout = '30s' AS $$
DECLARE
    others text;
BEGIN
    -- The mode conflicts with itself and with writers of the table, not with readers of it.
    LOCK TABLE dbanon.release IN SHARE ROW EXCLUSIVE MODE;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    SELECT string_agg(DISTINCT format('%s (process %s)', act.usename, loc.pid), ', ') INTO others
        FROM pg_locks loc JOIN pg_stat_activity act ON act.pid = loc.pid
        WHERE loc.relation = 'dbanon.release'::regclass AND loc.granted AND loc.mode IN ('ShareRowExclusiveLock', 'RowExclusiveLock')
            AND loc.pid <> pg_backend_pid();
    RAISE EXCEPTION 'Releases are published and withdrawn one after the other, and nothing was changed. Publishing, withdrawing or forgetting now: %.',
        coalesce(others, 'a session that has ended')
        USING ERRCODE = 'DA013', DETAIL = 'The sessions named hold locks on dbanon.release.', HINT = 'Try again when their transaction has ended.';
END
$$;
COMMENT ON FUNCTION dbanon_internal.lock_releases IS
'Keeps others from publishing and withdrawing until the transaction ends. Raises an error that names the sessions if others keep them too long.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_withdrawn_tables() RETURNS TABLE (relation text, name text, title text)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('release_%s', l.release_id), l.name, format('%s (number %s)', l.name, l.release_id)
    FROM dbanon.release l WHERE l.withdrawn_at IS NOT NULL AND l.series_id IS NULL
    UNION ALL
    SELECT format('series_%s', s.series_id), s.name, format('%s (all parts)', s.name) FROM dbanon.series s WHERE s.withdrawn_at IS NOT NULL
$$;
COMMENT ON FUNCTION dbanon_internal.list_withdrawn_tables IS
'The tables in schema dbanon that releases which were withdrawn had, whether they are there still or not.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_strays(OUT named text, OUT remedy text)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    WITH unnamed AS MATERIALIZED (
        SELECT cla.oid, format('dbanon.%I', cla.relname) AS name, inh.inhparent
        FROM pg_class cla LEFT JOIN pg_inherits inh ON inh.inhrelid = cla.oid
        WHERE cla.relnamespace = 'dbanon'::regnamespace AND cla.relkind IN ('r', 'p') AND cla.relname ~ '^(release|series)_[0-9]+$'
            AND cla.relname::text NOT IN (SELECT format('release_%s', rel.release_id) FROM ONLY dbanon.release rel WHERE rel.run_id IS NOT NULL
                                          UNION ALL SELECT format('series_%s', ser.series_id) FROM ONLY dbanon.series ser)
    ), stray AS MATERIALIZED (
        -- A table of several parts has a number that no release has. A part goes with the table of all parts.
        SELECT unn.oid, unn.name FROM unnamed unn
        WHERE unn.inhparent IS NULL OR unn.inhparent NOT IN (SELECT whole.oid FROM unnamed whole) AND unn.oid NOT IN (
            SELECT tab.relation
            FROM ONLY dbanon.series ser CROSS JOIN LATERAL dbanon_internal.list_series_tables(ser.series_id) tab
            JOIN unnamed fold ON fold.oid = tab.relation
            WHERE EXISTS (SELECT FROM ONLY dbanon.release rel WHERE rel.series_id = ser.series_id AND rel.bounds && tab.bounds))
    )
    SELECT dbanon_internal.name_some(array_agg(DISTINCT stray.name) || array_agg(DISTINCT format('published.%I', cla.relname)) FILTER (
            WHERE cla.relnamespace = 'published'::regnamespace)),
        format('DROP TABLE %s CASCADE', string_agg(DISTINCT stray.name, ', '))
    FROM stray
    LEFT JOIN pg_depend dep ON dep.refclassid = 'pg_class'::regclass AND dep.refobjid = stray.oid AND dep.classid = 'pg_rewrite'::regclass
    LEFT JOIN pg_rewrite rew ON rew.oid = dep.objid
    LEFT JOIN pg_class cla ON cla.oid = rew.ev_class
$$;
COMMENT ON FUNCTION dbanon_internal.find_strays IS
'Names the tables of releases that no release names, as pg_restore --clean leaves them, and the views of published that read one; and what drops them.';

CREATE OR REPLACE FUNCTION dbanon_internal.clear_parts() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    empty record;
BEGIN
    FOR empty IN
        SELECT ser.series_id, tab.relation
        FROM dbanon.series ser CROSS JOIN LATERAL dbanon_internal.list_series_tables(ser.series_id) tab
        WHERE ser.withdrawn_at IS NULL AND NOT EXISTS (
            SELECT FROM dbanon.release rel WHERE rel.series_id = ser.series_id AND rel.withdrawn_at IS NULL AND rel.bounds && tab.bounds)
        ORDER BY ser.series_id, tab.bounds
    LOOP
        BEGIN
            -- The table of all parts first, as readers lock it, or both would wait for one another.
            EXECUTE format('LOCK TABLE dbanon.series_%s IN ACCESS EXCLUSIVE MODE', empty.series_id);
            EXECUTE format('DROP TABLE %s', empty.relation);
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            NULL;  -- it has no rows any more; the next call tries again
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.clear_parts IS 'Drops the tables of parts that were withdrawn, where no session reads their release.';

CREATE OR REPLACE FUNCTION dbanon.clear_withdrawn() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms'
AS $$
DECLARE
    gone record;
    step record;
    failure text;
    readers text;
BEGIN
    PERFORM dbanon_internal.lock_releases();
    FOR gone IN
        SELECT tab.relation, tab.name, tab.title, EXISTS (  -- is its view still where it was?
                SELECT FROM pg_depend dep JOIN pg_rewrite rew ON dep.classid = 'pg_rewrite'::regclass AND rew.oid = dep.objid
                WHERE dep.refclassid = 'pg_class'::regclass AND dep.refobjid = to_regclass(format('dbanon.%s', tab.relation))
                    AND rew.ev_class = to_regclass(format('published.%I', tab.name))) AS shown
        FROM dbanon_internal.list_withdrawn_tables() tab
        WHERE coalesce(to_regclass(format('dbanon.%s', tab.relation)), to_regclass(format('dbanon.withdrawn$%s', tab.relation))) IS NOT NULL
        ORDER BY tab.relation
    LOOP
        failure := NULL;
        FOR step IN
            SELECT act.ord, format(act.statement, gone.relation, gone.name) AS statement, format(act.relation, gone.relation) AS relation,
                act.patience
            FROM (VALUES
                (1, 'SELECT dbanon_internal.hide_view(%L, %L)', CASE WHEN gone.shown THEN 'dbanon.%s' END, '100ms'),
                -- Others may have built thousands of things on it, and hold each: whatever has to be waited for stays for now.
                (2, 'DROP VIEW dbanon.withdrawn$%s CASCADE', 'dbanon.withdrawn$%s', '1ms'),
                -- Autovacuum gives way after a second.
                (3, 'DROP TABLE dbanon.%s', 'dbanon.%s', '2s')) act (ord, statement, relation, patience)
            ORDER BY act.ord
        LOOP
            -- Steps that an earlier attempt finished are skipped. A failed step is reported, and the next call tries it again.
            CONTINUE WHEN to_regclass(step.relation) IS NULL;
            PERFORM set_config('lock_timeout', step.patience, true);
            BEGIN
                EXECUTE step.statement;
            EXCEPTION WHEN OTHERS THEN
                failure := coalesce(failure, SQLERRM);
                EXIT WHEN step.ord = 1;  -- the table goes after its view
            END;
        END LOOP;
        IF failure IS NOT NULL THEN
            SELECT ' It is in use by ' || string_agg(rea.reader, ', ') || '.' INTO readers
                FROM dbanon_internal.find_readers(gone.name) rea WHERE gone.shown;
            RAISE NOTICE 'Release % is withdrawn, and analysts can no longer read it. Not all of it could be dropped yet: %.% The next publication '
                'or withdrawal tries again, or SELECT dbanon.clear_withdrawn().',
                gone.title, failure, coalesce(readers, '');
        END IF;
    END LOOP;
    PERFORM dbanon_internal.clear_parts();
    PERFORM set_config('lock_timeout', '100ms', true);
    BEGIN
        PERFORM dbanon_internal.dismiss_readers();
    EXCEPTION WHEN lock_not_available OR deadlock_detected OR internal_error THEN  -- by a GRANT, as above
        NULL;  -- what they keep shows them nothing; the next call tries again
    END;
END
$$;
COMMENT ON FUNCTION dbanon.clear_withdrawn IS
'Drops the remains of withdrawn releases and parts: their rows, their emptied views, and objects of others that are built on these (views,
materialized views,
functions, columns of the row type). It takes the rights on schema published from roles that were readers of single releases and read none any more.
It leaves objects that it cannot lock at once for the next publication or withdrawal, which call this too. That does no harm.
Arguments: none.
Returns: nothing. Notices name the objects that are dropped, and the objects that are left and why.
Raises: DA013 where another publication or withdrawal does not end.
Example: SELECT dbanon.clear_withdrawn().';

CREATE OR REPLACE FUNCTION dbanon.unpublish(name text, end_readers boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '30s'
AS $$
DECLARE
    live dbanon.release;
    series dbanon.series;
    relation text;
    -- The first is done in any case; what the others cannot have for themselves, dbanon.clear_withdrawn has later.
    steps CONSTANT text[] := ARRAY['SELECT dbanon_internal.revoke_rights(''dbanon.%1$s'')',
                                   'SELECT dbanon_internal.revoke_rights(''published.%2$s'')', 'SELECT dbanon_internal.hide_view(%1$L, %2$L)'];
    done integer := 0;
BEGIN
    PERFORM dbanon_internal.demand_release_name(unpublish.name);
    PERFORM dbanon_internal.lock_releases();  -- or the release of this name could be another by the time it is ours
    series := dbanon_internal.find_live_series(unpublish.name);
    -- Of one that grows all parts may have been withdrawn: the last of them stands for it.
    SELECT rel.* INTO live FROM dbanon.release rel
        WHERE CASE WHEN series.series_id IS NULL THEN rel.name = unpublish.name AND rel.withdrawn_at IS NULL ELSE rel.series_id = series.series_id END
        ORDER BY rel.release_id DESC LIMIT 1 FOR UPDATE;
    IF live.release_id IS NULL THEN
        RAISE EXCEPTION 'The release to withdraw must be live. There is none named %.', unpublish.name
            USING ERRCODE = 'DA001', DETAIL = 'Looked in dbanon.release.', HINT = 'List the releases: SELECT * FROM dbanon.releases.';
    END IF;
    relation := coalesce('series_' || series.series_id, 'release_' || live.release_id);
    -- Once the rights on the table are revoked no analyst reads it: a session that may not be ended then delays only the rest.
    WHILE done < cardinality(steps)
        AND dbanon_internal.execute_exclusively(format(steps[done + 1], relation, live.name), live.release_id, unpublish.end_readers) LOOP
        done := done + 1;
    END LOOP;
    -- Without end_readers it is all or nothing; with it, the first step suffices: analysts have no rights any more.
    IF done = 0 OR (done < cardinality(steps) AND unpublish.end_readers IS NOT TRUE) THEN
        PERFORM dbanon_internal.refuse_readers(unpublish.name, format('SELECT dbanon.unpublish(%L, end_readers => true)', unpublish.name),
                                      unpublish.end_readers);
    END IF;
    UPDATE dbanon.release rel SET withdrawn_at = now(), withdrawn_by = session_user
        WHERE rel.withdrawn_at IS NULL AND (rel.release_id = live.release_id OR rel.series_id = live.series_id);
    UPDATE dbanon.series ser SET withdrawn_at = now(), withdrawn_by = session_user WHERE ser.series_id = live.series_id;
    PERFORM dbanon.clear_withdrawn();
    RETURN live.run_id;
END
$$;
COMMENT ON FUNCTION dbanon.unpublish IS
'Withdraws a release. It takes all rights on its rows and its view, empties the view and moves it out of schema published. It drops the view, the
rows and objects of others that are built on it, or leaves that to dbanon.clear_withdrawn. The run, its rows and the entry in dbanon.release stay,
because the
readers of the view still know it. A release that grows is withdrawn with all of its parts (for one part, see dbanon.unpublish_part).
Arguments:
- name: name of the release.
- end_readers: end the sessions that read it instead of giving up after 5 seconds. Then it is withdrawn in any case. A notice names the sessions that
  may not be ended (superusers, prepared transactions), and the rows stay for now.
Returns: the number of the run, or that of the last part.
Raises: DA001, DA002. DA013 if it is being read and end_readers is false. Notices name the ended sessions and the dropped objects.
Example: SELECT dbanon.unpublish(''taxi_k5'').';
