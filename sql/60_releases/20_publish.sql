-- The gate between a verified run and the schema analysts read.

CREATE OR REPLACE FUNCTION dbanon_internal.demand_release_name(name text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off AS $$
BEGIN
    -- quote_ident leaves alone exactly the names that need no quotes: it knows the reserved words.
    IF name IS NULL OR name COLLATE "C" !~ '^[a-z][a-z0-9_]{0,49}$' OR quote_ident(name) <> name
        OR name IN ('releases', 'parts', 'columns', 'left_out', 'surfaces', 'atoms') THEN
        RAISE EXCEPTION 'The name of a release must be lower-case letters, digits and underscores, start with a letter, '
                        'have at most 50 characters and be no SQL keyword, nor releases, parts, columns, left_out, surfaces or atoms. Got % instead.',
                coalesce(dbanon_internal.quote_text(name), 'NULL')
            USING ERRCODE = 'DA002', DETAIL = format('It has %s.', dbanon_internal.format_quantity(coalesce(length(name), 0), 'character')),
                  HINT = 'Choose a name such as taxi_k5.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_release_name IS
'Refuses a name that would need quotes as a view''s name, and those of the views that list the releases.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_publishable(run_id bigint, OUT digest bytea, OUT content bytea)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run dbanon.run;
    method dbanon.method;
    verdict dbanon.verification;
BEGIN
    SELECT stored.* INTO STRICT run FROM ONLY dbanon.run stored WHERE stored.run_id = demand_publishable.run_id;
    SELECT met.* INTO STRICT method FROM ONLY dbanon.method met WHERE met.name = run.method;
    IF dbanon_internal.has_own_methods() IS NOT TRUE THEN
        RAISE EXCEPTION 'Table dbanon.method must be as the last upgrade wrote it. It was changed since, and nothing was published.'
            USING ERRCODE = 'DA005', DETAIL = 'It says which runs are compared with one another, and by what.',
                  HINT = 'Upgrade the database again, which writes the table, and find out who changed it.';
    END IF;
    IF EXISTS (SELECT FROM ONLY dbanon.dataset dat WHERE dat.dataset_id = run.dataset_id AND dat.sample_of IS NOT NULL) THEN
        RAISE EXCEPTION 'A run must be of a whole dataset to be published. Run % is of a sample that was drawn for a sweep.', run.run_id
            USING ERRCODE = 'DA004', DETAIL = 'The sample is dropped when its sweep ends.',
                  HINT = 'Run the method with the same parameters on the dataset: CALL dbanon.anonymize(...).';
    END IF;
    -- An upgrade may have taken the algorithm of an older run out of the registry, and nothing vouches for it then.
    IF NOT method.algorithms @> jsonb_build_array(jsonb_build_object('name', run.algorithm)) THEN
        RAISE EXCEPTION 'A run must use an algorithm of % that is in the registry to be published. Run % used %, which is not.',
                run.method, run.run_id, run.algorithm
            USING ERRCODE = 'DA004', DETAIL = 'The view dbanon.methods lists the algorithms that give the guarantee of their method.',
                  HINT = 'Run another algorithm: CALL dbanon.anonymize(...).';
    END IF;
    IF run.status <> 'verified' THEN
        RAISE EXCEPTION 'A run must be verified to be published. Run % is %.', run.run_id, run.status
            USING ERRCODE = 'DA004', DETAIL = format('Status of run %s: %s.', run.run_id, run.status),
                  HINT = CASE run.status WHEN 'computed' THEN format('Verify it: SELECT dbanon.verify_run(%s).', run.run_id)
                                         ELSE 'Start another run: CALL dbanon.anonymize(...).' END;
    END IF;
    -- An earlier verdict that passed does not count once a later one did not.
    verdict := dbanon_internal.find_verdict(run.run_id);
    IF verdict.passed IS NOT TRUE THEN
        RAISE EXCEPTION 'The latest verification of a run must have passed for it to be published. Run % has %.', run.run_id,
                CASE WHEN verdict.passed IS NULL THEN 'none' ELSE 'a failed one' END
            USING ERRCODE = 'DA004', DETAIL = format('Attack: %s.', method.attack),
                  HINT = format('Verify it: SELECT dbanon.verify_run(%s).', run.run_id);
    END IF;
    IF verdict.outdated THEN
        RAISE EXCEPTION 'A run must be verified by this version of dbanon to be published. Run % was verified by an earlier one.', run.run_id
            USING ERRCODE = 'DA005', DETAIL = 'The digest of its rows was made in another way then, so it does not say whether they changed since.',
                  HINT = format('Verify it again: SELECT dbanon.verify_run(%s).', run.run_id);
    END IF;
    -- The verdict is on rows with a certain digest; any change of them since, by any login, shows here.
    content := dbanon_internal.compute_content_digest(run.run_id);
    digest := dbanon_internal.add_surface(dbanon_internal.compute_run_digest(run.run_id, content), verdict.surface);
    IF digest IS DISTINCT FROM verdict.digest THEN
        RAISE EXCEPTION 'A run must be published as it was verified. Rows of run % or of its dataset changed since its verification.',
                run.run_id
            USING ERRCODE = 'DA005', DETAIL = format('Verified: %s. Now: %s.', encode(verdict.digest, 'hex'), encode(digest, 'hex')),
                  HINT = CASE WHEN run.dataset_revision = (SELECT dat.revision FROM ONLY dbanon.dataset dat WHERE dat.dataset_id = run.dataset_id)
                             THEN format('Verify it again: SELECT dbanon.verify_run(%s).', run.run_id)
                             ELSE 'The dataset has changed since that run. Start another: CALL dbanon.anonymize(...).' END;
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_publishable IS
'Refuses a run unless the registry is that of the last upgrade, its algorithm gives the guarantee, its status is verified, and the latest verification of its
method''s attack passed on exactly the rows stored now; gives its digest, and the content that this is made of.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_clean_transaction() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    written text;
BEGIN
    -- An older snapshot hides releases committed since, with which the run would have to be intersected.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'A run must be published in a transaction that is read committed. This one is %.', current_setting('transaction_isolation')
            USING ERRCODE = 'DA015', DETAIL = 'It would not see changes and publications since it began.',
                  HINT = 'Begin another: BEGIN ISOLATION LEVEL READ COMMITTED;';
    END IF;
    -- Whatever writes rows holds such a lock on their table from before the first row to the end of the transaction: a statement that is
    -- not over yet, a trigger, a function or a cursor too. No caller can give it back but by undoing what was written.
    SELECT string_agg(DISTINCT format('dbanon.%s', cla.relname), ', ') INTO written
        FROM pg_locks loc JOIN pg_class cla ON cla.oid = loc.relation
        WHERE loc.pid = pg_backend_pid() AND loc.locktype = 'relation'
          AND loc.database = (SELECT pgd.oid FROM pg_database pgd WHERE pgd.datname = current_database())
          AND loc.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
          AND cla.relnamespace = 'dbanon'::regnamespace AND cla.relname = ANY (
              dbanon_internal.list_run_tables() || dbanon_internal.list_data_tables() || ARRAY['verification', 'method']);
    IF written IS NOT NULL THEN
        RAISE EXCEPTION 'A run must be published in a transaction that changed neither data nor runs. This one wrote to, or locked, %.', written
            USING ERRCODE = 'DA015', DETAIL = 'No verification covers the changes that it is about to commit.',
                  HINT = 'End the transaction with COMMIT, verify the run if its data changed, and publish it in another.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_clean_transaction IS
'Refuses a transaction that has written to, or locked for writing, the tables of data, of what runs wrote, of verdicts
or methods; and one with an old snapshot.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_release_columns(method text) RETURNS TABLE (
    ord bigint, name text, sql_type text, value text, comment text)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT col.ord, col.value ->> 'name', typ.sql_type,
        CASE typ.sql_type
            WHEN 'jsonb' THEN format('coalesce(reg.extra -> %L, %L::jsonb)', col.value ->> 'name', col.value ->> 'default')
            ELSE format('coalesce((reg.extra ->> %L)::%s, %L::%s)',
                        col.value ->> 'name', typ.sql_type, col.value ->> 'default', typ.sql_type)
        END,
        col.value ->> 'comment'
    FROM ONLY dbanon.method met
    CROSS JOIN LATERAL jsonb_array_elements(met.columns) WITH ORDINALITY AS col (value, ord)
    -- Through regtype: only the name of a type that exists comes back out.
    CROSS JOIN LATERAL (SELECT format_type((col.value ->> 'sql_type')::regtype, NULL) AS sql_type) typ
    WHERE met.name = list_release_columns.method
$$;
COMMENT ON FUNCTION dbanon_internal.list_release_columns IS 'The method''s own columns of a release, as SQL.';

CREATE OR REPLACE FUNCTION dbanon_internal.copy_release(
    run_id bigint, release_id bigint, name text, prefix integer, bounds tstzrange, OUT rows bigint, OUT longest_s double precision)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
-- Rows are published right after they were written, before any statistics know of them: the planner takes a run for one row.
SET enable_nestloop = off
-- The rows of a run are put together first, and what belongs to them is looked up for all at once: no other order knows how many they are.
SET join_collapse_limit = 1
-- Rows are joined and sorted in parallel where there are many. Workers share four times work_mem in /dev/shm. A container has 64 MB of it.
SET parallel_setup_cost = 0 SET parallel_tuple_cost = 0 SET work_mem = '8MB' SET hash_mem_multiplier = 1 AS $$
DECLARE
    target CONSTANT text := format('dbanon.release_%s', release_id);
    numbered CONSTANT text := target || '_numbered';  -- not temporary: workers could not read it
    region_type text;
    region_value text := 'reg.region';
    -- A view that is there keeps its columns: those of earlier versions have the range of both times, too.
    period CONSTANT text := (SELECT att.attname FROM pg_attribute att
                             WHERE att.attrelid = to_regclass(format('published.%I', copy_release.name)) AND att.attname = 'period');
    method text;
    srid integer;
    own text;
    -- Keys of a part have its number above 32 bits of their own.
    base CONSTANT bigint := coalesce(copy_release.prefix, 0)::bigint << 32;
BEGIN
    SELECT met.name, met.region_type, dat.srid INTO STRICT method, region_type, srid
        FROM ONLY dbanon.run run JOIN ONLY dbanon.method met ON met.name = run.method JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
        WHERE run.run_id = copy_release.run_id;
    -- A column of a table has one type of geometry; a single polygon is stored as a collection of one.
    IF region_type = 'MultiPolygon' THEN region_value := '@postgis@.ST_Multi(reg.region)'; END IF;
    SELECT string_agg(format(', %s AS %I', col.value, col.name), '' ORDER BY col.ord) INTO own FROM dbanon_internal.list_release_columns(method) col;
    -- gen_random_uuid draws from the operating system's cryptographic source: the numbers reveal nothing of the run's own.
    EXECUTE format('CREATE UNLOGGED TABLE %s AS '
        'SELECT num.rows_before + ele.seq AS cloak_id, num.record_id, ele.seq::integer AS seq, per.period, ele.region_no '
        'FROM (SELECT shuffled.periods, shuffled.regions, %s + row_number() OVER drawn AS record_id, '
                  '%2$s + sum(cardinality(shuffled.periods)) OVER drawn - cardinality(shuffled.periods) AS rows_before '
              'FROM (SELECT rec.periods, rec.regions, gen_random_uuid() AS draw '
                    'FROM ONLY dbanon.record rec WHERE rec.run_id = %3$s) shuffled '
              'WINDOW drawn AS (ORDER BY shuffled.draw ROWS UNBOUNDED PRECEDING)) num '
        'CROSS JOIN LATERAL unnest(num.periods, num.regions) WITH ORDINALITY ele (period_no, region_no, seq) '
        'JOIN ONLY dbanon.period per ON per.run_id = %3$s AND per.period_no = ele.period_no', numbered, base, copy_release.run_id);
    EXECUTE format('CREATE TABLE %s AS SELECT num.cloak_id, num.record_id, num.seq, %s%s::@postgis@.geometry(%s, %s) AS region, reg.crowd, '
            'reg.subjects, lower(num.period) AS valid_from, upper(num.period) AS valid_to%s '
        'FROM %s num JOIN ONLY dbanon.region reg ON reg.run_id = %s AND reg.region_no = num.region_no ORDER BY valid_from, num.cloak_id',
        target, 'num.' || period || ', ', region_value, region_type, srid, own, numbered, copy_release.run_id);
    GET DIAGNOSTICS rows = ROW_COUNT;
    EXECUTE format('DROP TABLE %s', numbered);
    -- Default privileges of the database may have given rights on it; readers come through the view.
    EXECUTE format('REVOKE ALL ON TABLE %s FROM PUBLIC', target);
    EXECUTE (SELECT format('ALTER TABLE %s %s', target, string_agg(format('ALTER COLUMN %I SET NOT NULL', att.attname), ', '))
             FROM pg_attribute att WHERE att.attrelid = target::regclass AND att.attnum > 0);
    longest_s := dbanon_internal.finish_table(target, bounds);
END
$$;
COMMENT ON FUNCTION dbanon_internal.copy_release IS
'Copies a run''s cloaks into the release''s own immutable table dbanon.release_<release_id>, numbered in an order drawn
from a cryptographic source, and stored in that of their beginnings and numbers; those of a part with its prefix before their numbers; returns how many there are, and how many seconds
the longest holds.';

CREATE OR REPLACE FUNCTION dbanon_internal.show_release(release_id bigint, name text, replaced bigint, end_readers boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    release dbanon.release;
    names text;
    is_first boolean;
BEGIN
    SELECT rel.* INTO STRICT release FROM ONLY dbanon.release rel WHERE rel.release_id = show_release.release_id;
    SELECT string_agg(quote_ident(att.attname), ', ' ORDER BY att.attnum) INTO names
        FROM pg_attribute att
        WHERE att.attrelid = format('dbanon.release_%s', release_id)::regclass AND att.attnum > 0 AND NOT att.attisdropped;
    is_first := NOT EXISTS (SELECT FROM ONLY dbanon.release rel WHERE rel.series_id = release.series_id AND rel.release_id <> release.release_id);
    IF release.series_id IS NOT NULL THEN
        PERFORM dbanon_internal.attach_table(release.series_id, format('dbanon.release_%s', release_id), release.bounds);
    END IF;
    -- A new name gets a new view; a replaced release keeps its view, so that what others built on it goes on working; and one that grows, too.
    IF replaced IS NOT NULL THEN
        PERFORM dbanon_internal.replace_view(show_release.release_id, show_release.replaced, names, show_release.end_readers);
    ELSIF is_first THEN
        EXECUTE format('CREATE VIEW published.%I AS SELECT %s FROM %s', name, names,
                       coalesce('dbanon.series_' || release.series_id, 'ONLY dbanon.release_' || release_id));
    END IF;
    -- Rights on a view that is there stay as they are: who changes them in an open transaction would delay a part.
    IF is_first THEN PERFORM dbanon_internal.grant_readers(show_release.release_id, show_release.replaced); END IF;
    PERFORM dbanon_internal.describe_release(release_id);
    PERFORM dbanon.clear_withdrawn();
END
$$;
COMMENT ON FUNCTION dbanon_internal.show_release IS
'Makes the view published.<name> over a release''s table, with the guarantee as its comment, and lets its readers read it; where a part is
there, adds the table to what the view shows.';

CREATE OR REPLACE FUNCTION dbanon_internal.refuse_name_taken(name text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM ONLY dbanon.release rel WHERE rel.name = refuse_name_taken.name AND rel.withdrawn_at IS NULL) THEN
        RAISE EXCEPTION 'The name of a release is not free: there is a live release ''%'' already, and nothing was published.', name
            USING ERRCODE = 'DA003', DETAIL = format('published.%s exists.', name),
                  HINT = CASE WHEN (dbanon_internal.find_live_series(name)).series_id IS NOT NULL
                              THEN 'That one grows: publish the run as a part of it with grow => true, or choose another name.'
                              ELSE 'Choose another, withdraw that one with SELECT dbanon.unpublish(...), or replace it with replace => true.' END;
    END IF;
    RAISE EXCEPTION 'The name of a release is not free: there is a ''%'' in schema published already, which is no live release, and nothing was published.', name
        USING ERRCODE = 'DA003', DETAIL = format('published.%s exists.', name),
              HINT = 'Choose another, or drop that one. If it is a withdrawn release, SELECT dbanon.clear_withdrawn() says why it is still there.';
END
$$;
COMMENT ON FUNCTION dbanon_internal.refuse_name_taken IS 'Raises the error of a release name that another view or release has.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_free_name(name text, replace boolean, grow boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    grows CONSTANT boolean := (dbanon_internal.find_live_series(demand_free_name.name)).series_id IS NOT NULL;
    live CONSTANT boolean := grows OR EXISTS (
        SELECT FROM ONLY dbanon.release rel WHERE rel.name = demand_free_name.name AND rel.withdrawn_at IS NULL);
BEGIN
    IF grow AND replace THEN
        RAISE EXCEPTION 'A publication must either replace a release or be a part of one. Got both replace => true and grow => true.'
            USING ERRCODE = 'DA011', DETAIL = 'A part leaves the others as they are.',
                  HINT = 'Leave one out. To publish the time of a part again, withdraw that with SELECT dbanon.unpublish_part(...) first.';
    END IF;
    -- A withdrawn release that a superuser was reading then may have the name still.
    IF EXISTS (SELECT FROM dbanon.release rel WHERE rel.name = demand_free_name.name AND rel.withdrawn_at IS NOT NULL
                   AND to_regclass(format('dbanon.release_%s', rel.release_id)) IS NOT NULL) THEN
        PERFORM dbanon.clear_withdrawn();
    END IF;
    IF (live AND grow IS NOT TRUE AND replace IS NOT TRUE) OR (live AND grows IS DISTINCT FROM coalesce(grow, false))
        OR (NOT live AND EXISTS (SELECT FROM pg_class cla WHERE cla.relname = name AND cla.relnamespace = 'published'::regnamespace
                                 UNION ALL
                                 SELECT FROM pg_type typ WHERE typ.typname = name AND typ.typnamespace = 'published'::regnamespace)) THEN
        PERFORM dbanon_internal.refuse_name_taken(name);
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_free_name IS 'Refuses a name that cannot be given to a new release, or a new part.';

CREATE OR REPLACE FUNCTION dbanon_internal.lock_population(dataset_id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM ONLY dbanon.population p
        WHERE p.population_id = (SELECT d.population_id FROM ONLY dbanon.dataset d WHERE d.dataset_id = lock_population.dataset_id)
        FOR NO KEY UPDATE;
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'A release cannot be published while another of the same population is. That one did not end within 30 seconds, and '
                    'nothing was published.'
        USING ERRCODE = 'DA013', DETAIL = 'Each release is compared with all that came before it.',
              HINT = 'Try again when its transaction has ended: SELECT * FROM pg_stat_activity WHERE backend_xid IS NOT NULL.';
END
$$;
COMMENT ON FUNCTION dbanon_internal.lock_population IS
'Keeps other publications of a dataset''s population waiting until the transaction ends. Raises an error if another publication keeps it for 30
seconds.';

CREATE OR REPLACE FUNCTION dbanon.publish(
    run_id bigint, name text, replace boolean DEFAULT false, allow_overlap boolean DEFAULT false, reason text DEFAULT NULL,
    end_readers boolean DEFAULT false, readers text[] DEFAULT NULL, grow boolean DEFAULT false)
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '30s'
AS $$
DECLARE
    run dbanon.run;
    says record;
    checked record;
    new_release bigint;
    old_release bigint;
    before text;
    groups_sum numeric;
    overlap jsonb;
    few jsonb;
    allowed boolean;
    copied record;
    chosen text[];
    part record;
    notice text;
BEGIN
    -- 1. Refuse what can be refused without looking at the run, before anything is locked.
    PERFORM dbanon_internal.demand_clean_transaction();
    PERFORM dbanon_internal.demand_history();
    PERFORM dbanon_internal.demand_release_name(publish.name);
    PERFORM dbanon_internal.demand_override_reason(publish.allow_overlap, publish.reason);
    PERFORM dbanon_internal.demand_replacement(publish.end_readers, publish.replace);
    PERFORM dbanon_internal.choose_readers(publish.name, publish.replace OR publish.grow, publish.readers);
    SELECT stored.* INTO run FROM ONLY dbanon.run stored WHERE stored.run_id = publish.run_id;
    IF run.run_id IS NULL THEN PERFORM dbanon_internal.refuse_no_run(publish.run_id); END IF;
    PERFORM dbanon_internal.demand_free_name(publish.name, publish.replace, publish.grow);
    -- 2. Lock and check the run. From here to the end no session loads into the dataset, publishes another run of it or writes its rows. The rows are
    -- written, not just locked, so that a session on an older snapshot fails instead of overlooking the release.
    BEGIN
        UPDATE ONLY dbanon.dataset dat SET revision = dat.revision WHERE dat.dataset_id = run.dataset_id;
        UPDATE ONLY dbanon.run stored SET status = stored.status, publish_error = NULL
            WHERE stored.run_id = publish.run_id AND stored.dataset_id = run.dataset_id;
        IF NOT FOUND THEN  -- dropped, or given to another dataset, meanwhile
            PERFORM dbanon_internal.refuse_no_run(publish.run_id);
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        RAISE EXCEPTION 'Run % cannot be published while another session changes it or its dataset. That session did not end within '
                        '30 seconds, and nothing was published.', publish.run_id
            USING ERRCODE = 'DA013', DETAIL = 'A load that is not committed counts as such a change.',
                  HINT = 'Try again when its transaction has ended: SELECT * FROM pg_stat_activity WHERE backend_xid IS NOT NULL.';
    END;
    PERFORM dbanon_internal.demand_policy(publish.run_id);
    -- Right after a run the server has no statistics of its rows, and would read those of a large run in one process alone.
    IF run.rows > 100000 THEN
        ANALYZE (SKIP_LOCKED) dbanon.membership, dbanon.record, dbanon.region;
    END IF;
    -- From now on nothing changes under it.
    checked := dbanon_internal.demand_publishable(publish.run_id);
    says := dbanon_internal.find_row_meaning(publish.run_id);

    -- 3. Copy the rows, before releases are locked, since copying takes long and other publications would wait.
    new_release := nextval(pg_get_serial_sequence('dbanon.release', 'release_id'));
    -- Unless the release grows, all columns of part are null.
    SELECT par.* INTO part FROM dbanon_internal.prepare_part(publish.run_id, publish.name, publish.readers) par WHERE publish.grow;
    copied := dbanon_internal.copy_release(publish.run_id, new_release, publish.name, part.prefix, part.bounds);
    PERFORM dbanon_internal.store_cells(publish.run_id, new_release);
    -- 4. Compare with earlier releases. One publication of a population after the other: what each is measured with stays all there is until it ends.
    PERFORM dbanon_internal.lock_population(run.dataset_id);
    -- What the next publication is compared with; kept for as long as adversaries know the release, that is always. Each check below refuses
    -- unless allow_overlap lets it through; what it returns then is stored with the release, and says whether there was anything to allow.
    PERFORM dbanon_internal.store_groups(publish.run_id, new_release);
    PERFORM dbanon_internal.store_requests(publish.run_id, new_release);
    groups_sum := dbanon_internal.compute_groups_sum(new_release, run.dataset_id);
    overlap := dbanon_internal.demand_kept_promises(publish.run_id, new_release, checked.content, publish.allow_overlap)
        || dbanon_internal.demand_classes(publish.run_id, new_release, publish.allow_overlap);
    -- A session that publishes or withdraws under this name meanwhile comes first or last, not in between.
    PERFORM dbanon_internal.lock_releases();
    -- A copy may be of another population: whether that has releases is known from here on.
    overlap := overlap || jsonb_strip_nulls(jsonb_build_object(
        'copies', dbanon_internal.demand_no_copies(publish.run_id, publish.allow_overlap),
        'settle_s', dbanon_internal.demand_settle_time(publish.run_id, publish.allow_overlap)));
    allowed := coalesce((overlap ->> 'below')::bigint > 0, false) OR overlap ?| ARRAY['copies', 'settle_s', 'classes', 'other_cells'];
    IF publish.allow_overlap AND NOT allowed THEN
        RAISE NOTICE 'There was nothing to allow, so the reason is not recorded.';
    END IF;
    PERFORM dbanon_internal.demand_free_name(publish.name, publish.replace, publish.grow);
    chosen := dbanon_internal.choose_readers(publish.name, publish.replace OR publish.grow, publish.readers);
    few := dbanon_internal.count_few_over_parts(publish.run_id, new_release, publish.name);
    overlap := overlap || CASE WHEN publish.grow OR few ->> 'requests_of_few_over_parts' <> '0' THEN few ELSE '{}' END;
    -- 5. Record the release, and show it.
    BEGIN
        IF publish.replace THEN
            UPDATE ONLY dbanon.release rel SET withdrawn_at = now(), withdrawn_by = session_user
                WHERE rel.name = publish.name AND rel.withdrawn_at IS NULL RETURNING rel.release_id INTO old_release;
        END IF;
        -- Readers of the replaced release get data of another method or dataset: allowed, but said.
        SELECT format('%s of dataset %s', former.method, dat.name) INTO before
            FROM ONLY dbanon.release rel JOIN ONLY dbanon.run former ON former.run_id = rel.run_id
            JOIN ONLY dbanon.dataset dat ON dat.dataset_id = former.dataset_id
            WHERE rel.release_id = old_release AND (former.dataset_id, former.method) <> (run.dataset_id, run.method);
        IF FOUND THEN
            RAISE NOTICE 'The release that % replaces was made with %: its readers now get data of another kind.', publish.name, before;
        END IF;
        INSERT INTO dbanon.release (release_id, name, run_id, digest, rows, overlap, overlap_reason, readers, left_out, span, reach, content,
                                    groups_sum, cells_sum, holds, step_s, window_s, day_zone, extent, pois_at, percent_left_out, series_id, bounds, prefix, places,
                                    longest_s, guest_presence, people, verification_id, interval_factor, policy)
            OVERRIDING SYSTEM VALUE
            VALUES (new_release, publish.name, publish.run_id, checked.digest, copied.rows, nullif(overlap, '{}'),
                    CASE WHEN allowed THEN publish.reason END, chosen,
                    dbanon_internal.join_hours(run.suppressed -> 'by_hour', (run.params ->> 'k')::integer),
                    dbanon_internal.find_run_span(publish.run_id), dbanon_internal.compute_run_reach(publish.run_id),
                    CASE WHEN dbanon_internal.stands_alone(run.method, run.algorithm) THEN checked.content END,
                    groups_sum, dbanon_internal.compute_cells_sum(new_release, run.dataset_id), says.holds, says.step_s, says.window_s, says.day_zone,
                    dbanon_internal.find_run_extent(publish.run_id), dbanon_internal.find_pois_at(new_release, run.dataset_id),
                    dbanon_internal.compute_share_of_people(publish.run_id),
                    CASE WHEN publish.grow THEN dbanon_internal.join_series(publish.run_id, publish.name, part.bounds, chosen, new_release) END,
                    part.bounds, part.prefix, CASE WHEN publish.grow THEN dbanon_internal.compute_places_digest(publish.run_id) END,
                    copied.longest_s, dbanon_internal.compute_guest_presence(publish.run_id), dbanon_internal.count_people(publish.run_id, new_release),
                    dbanon_internal.find_last_verification(publish.run_id), dbanon_internal.find_interval_factor(publish.run_id),
                    dbanon_internal.demand_policy(publish.run_id, checked.digest));  -- again: it may have changed meanwhile
        -- Last: from here to the end of the transaction analysts wait for the view.
        PERFORM dbanon_internal.show_release(new_release, publish.name, old_release, publish.end_readers);
    EXCEPTION WHEN duplicate_table OR duplicate_object OR unique_violation THEN  -- another session took the name meanwhile
        PERFORM dbanon_internal.refuse_name_taken(publish.name);
    END;
    PERFORM dbanon_internal.write_mark(dbanon_internal.read_whereabouts());

    -- 6. Say what the publisher should know.
    FOR notice IN SELECT note FROM dbanon_internal.list_run_notices(publish.run_id) note LOOP
        RAISE NOTICE '%', notice;
    END LOOP;
    RETURN copied.rows;
END
$$;
COMMENT ON FUNCTION dbanon.publish IS
'Publishes a verified run as the view published.<name>. It recomputes the digest and refuses a run if its rows changed since the verification. It
refuses a run that, read together with earlier releases of the population, leaves a person fewer candidates than promised, or places without the promised l and t. It
copies the rows into an immutable table. It lets @analyst@ or the given readers read the view.
Arguments:
- run_id: the number of the run.
- name: name of the view: lower-case letters, digits and underscores.
- replace: @Publishing.replace@ That release is withdrawn.
- allow_overlap: @Publishing.allow_overlap@ Also needed where several releases together separate places without l categories or t, where the dataset is a copy, and
  where it has people under several names.
- reason: @Publishing.reason@
- end_readers: @Publishing.end_readers@ Without it, publishing gives up after 5 seconds.
- readers: @Publishing.readers@ Operators may read it in any case. NULL means all analysts, or with replace or grow the readers of the release that is
  there.
- grow: @Publishing.grow@ The bounds of the part are the since and until of the run.
Returns: how many rows were published.
Raises: DA001 to DA005, DA010, DA011. DA013 if the release that it replaces is being read. DA015 in a transaction that is not read committed, or that
wrote to data or runs. DA020 after a restore or failover, until dbanon.confirm_history was called. DA025 if the policy does not allow it. Notices tell how much it leaves out, the counts of
its attack, its overlaps and the sessions that were ended.
Example: SELECT dbanon.publish(1, ''taxi_k5'', replace => true).';
