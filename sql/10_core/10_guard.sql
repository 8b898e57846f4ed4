-- What keeps the tables true: dataset revisions, rows of released runs, releases.
--
-- The tables of dbanon_internal.list_data_tables and list_run_tables have no foreign keys: statement triggers (sql/85_triggers.sql) check the
-- same once a statement, which costs two million rows half a second where row by row it costs eight.
--
-- Errors of dbanon's own, class DA:
--   DA001 There is no such run, release, dataset, load or person.
--   DA002 The name, or the reason, cannot be used.
--   DA003 The name is taken.
--   DA004 The run must not be published: it is not verified, or not of a kind that may be published.
--   DA005 Rows changed since the verification, or an earlier version verified them, or records of a release changed since its
--         publication.
--   DA006 A statement tried to change releases or the audit, which only grow, or methods, which upgrades write.
--   DA007 A statement tried to change the rows of a released run, or to drop something that a live release needs.
--   DA008 A geometry has another SRID than its dataset.
--   DA009 Rows belong to a run or dataset that does not exist.
--   DA010 Earlier releases, or copies of the data, stand against the run: a promise would break, or cannot be checked.
--   DA011 There is no such method, algorithm or parameter, or an argument cannot be used.
--   DA012 The data cannot be used.
--   DA013 The run waits or is being worked on, or the release is being read, or there is nothing to do.
--   DA014 The login may not read a table, or sign a run.
--   DA015 The transaction does not fit: dbanon.anonymize cannot work inside a block, dbanon.publish and functions that erase data
--         cannot work on an old snapshot, and dbanon.publish cannot follow a change of data or runs in the same transaction.
--   DA016 The run failed or was cancelled.
--   DA017 No worker is up.
--   DA018 This is not an error but a notice of what is being done.
--   DA019 Periods of jobs are held.
--   DA020 The database was restored, copied or failed over, and no administrator has listed the publications since then.
--   DA021 The database has roles of other names, or the roles belong to another database or purpose.
--   DA022 The program or script does not know the revision of the schema.
--   DA023 The server, the database or the login lacks something that an upgrade or a removal needs.
--   DA024 The dataset lacks what the method hides, so the run would promise nothing.
--   DA025 The policy does not allow the run to be published, or too few have signed it.

CREATE OR REPLACE FUNCTION dbanon_internal.list_data_tables() RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY['trajectory', 'request', 'site', 'poi', 'cell', 'quasi_identifier']
$$;
COMMENT ON FUNCTION dbanon_internal.list_data_tables IS
'The one list of the tables that hold what was loaded, each with a column dataset_id: triggers, deletion and grants follow it.';

CREATE OR REPLACE FUNCTION dbanon_internal.bump_revision() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    touched bigint[];
    found_rows bigint;
    elsewhere boolean := false;
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        UPDATE ONLY dbanon.dataset SET revision = revision + 1;
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' THEN
        touched := ARRAY(SELECT DISTINCT added.dataset_id FROM added);
    ELSIF TG_OP = 'DELETE' THEN
        touched := ARRAY(SELECT DISTINCT changed.dataset_id FROM changed);
    ELSE
        touched := ARRAY(SELECT added.dataset_id FROM added UNION SELECT changed.dataset_id FROM changed);
    END IF;
    UPDATE ONLY dbanon.dataset dat SET revision = dat.revision + 1 WHERE dat.dataset_id = ANY (touched);
    GET DIAGNOSTICS found_rows = ROW_COUNT;
    IF TG_OP = 'DELETE' THEN RETURN NULL; END IF;
    IF found_rows < cardinality(touched) THEN
        RAISE EXCEPTION 'Rows of dbanon.% must belong to a dataset that exists.', TG_TABLE_NAME
            USING ERRCODE = 'DA009', DETAIL = format('Of %s, %s.', dbanon_internal.format_quantity(cardinality(touched), 'dataset'),
                dbanon_internal.format_quantity(found_rows, 'exists', 'exist')),
                  HINT = 'Insert the dataset into dbanon.dataset first.';
    END IF;
    IF TG_TABLE_NAME = 'trajectory' THEN
        PERFORM FROM (SELECT added.dataset_id, min(@postgis@.ST_SRID(added.path)) AS low, max(@postgis@.ST_SRID(added.path)) AS high
                      FROM added GROUP BY added.dataset_id) span
            JOIN ONLY dbanon.dataset dat USING (dataset_id)
            WHERE span.low <> dat.srid OR span.high <> dat.srid;
        elsewhere := FOUND;
    ELSIF TG_TABLE_NAME IN ('site', 'poi', 'cell') THEN
        PERFORM FROM added JOIN ONLY dbanon.dataset dat USING (dataset_id) WHERE @postgis@.ST_SRID(added.geom) <> dat.srid;
        elsewhere := FOUND;
    END IF;
    IF elsewhere THEN
        RAISE EXCEPTION 'Every geometry must be in the SRID of its dataset. At least one of dbanon.% is in another.', TG_TABLE_NAME
            USING ERRCODE = 'DA008',
                  DETAIL = format('%s written to.', dbanon_internal.format_quantity(cardinality(touched), 'dataset was', 'datasets were')),
                  HINT = 'Transform it with ST_Transform, or set its SRID with ST_SetSRID.';
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.bump_revision IS
'Raises dataset.revision whenever trajectories, requests, sites, points of interest, cells or quasi-identifiers of the
dataset change, so that a verification of older data is known to be old; also checks that the dataset exists and that
geometries are in its SRID.';

CREATE OR REPLACE FUNCTION dbanon_internal.guard_dataset() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.srid <> OLD.srid AND (
            EXISTS (SELECT FROM ONLY dbanon.trajectory tra WHERE tra.dataset_id = OLD.dataset_id)
            OR EXISTS (SELECT FROM ONLY dbanon.site site WHERE site.dataset_id = OLD.dataset_id)
            OR EXISTS (SELECT FROM ONLY dbanon.poi poi WHERE poi.dataset_id = OLD.dataset_id)
            OR EXISTS (SELECT FROM ONLY dbanon.cell cel WHERE cel.dataset_id = OLD.dataset_id)) THEN
        RAISE EXCEPTION 'The SRID of a dataset must stay while it has trajectories, sites, points of interest or cells. Got another '
                        'for one that has some.'
            USING ERRCODE = 'DA008', DETAIL = 'Every geometry carries the SRID of its dataset.',
                  HINT = 'Load it again: SELECT * FROM dbanon.import_trajectories(..., mode => ''replace'').';
    END IF;
    IF EXISTS (SELECT FROM ONLY dbanon.release rel JOIN ONLY dbanon.run run ON run.run_id = rel.run_id WHERE run.dataset_id = OLD.dataset_id) THEN
        RAISE EXCEPTION 'The SRID, the grids and the zone of days of a dataset that was ever published must stay. Got others.'
            USING ERRCODE = 'DA007', DETAIL = 'A release says on which grid it was made.',
                  HINT = 'Leave them. A coarser grid is a parameter of most methods.';
    END IF;
    NEW.revision := greatest(NEW.revision, OLD.revision + 1);
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION dbanon_internal.guard_dataset IS
'Keeps the SRID of a dataset that has trajectories, sites, points of interest or cells, and SRID and grids of one that
was ever published; raises its revision when its grid changes.';

CREATE OR REPLACE FUNCTION dbanon_internal.guard_people() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- A publication that has begun holds the dataset, and comes first.
    IF EXISTS (SELECT FROM ONLY dbanon.release rel JOIN ONLY dbanon.run run ON run.run_id = rel.run_id WHERE run.dataset_id = OLD.dataset_id)
        OR EXISTS (SELECT FROM ONLY dbanon.release rel WHERE rel.population_id = OLD.population_id) THEN  -- a lost one may be of it
        RAISE EXCEPTION 'A dataset that was ever published must stay in its population, and its settle time may only grow. ''%'' is in '
                        'population ''%'' with %.', OLD.name,
                (SELECT pop.name FROM ONLY dbanon.population pop WHERE pop.population_id = OLD.population_id),
                dbanon_internal.format_quantity(OLD.settle_s, 'second')
            USING ERRCODE = 'DA011', DETAIL = 'The next release is compared with earlier releases by the names of people.',
                  HINT = 'Leave out population => ..., and settle_s => ... unless it is greater.';
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION dbanon_internal.guard_people IS
'Keeps the population and the naming of subjects of a dataset that was ever published, and lets its settle time only grow.';

CREATE OR REPLACE FUNCTION dbanon_internal.guard_srid() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dbanon_internal.demand_metric(NEW.srid);
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION dbanon_internal.guard_srid IS 'Refuses a dataset in a reference system that imports refuse.';

CREATE OR REPLACE FUNCTION dbanon_internal.delete_dataset_rows() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relation text;
BEGIN
    FOREACH relation IN ARRAY dbanon_internal.list_data_tables() LOOP
        EXECUTE format('DELETE FROM dbanon.%I WHERE dataset_id = $1', relation) USING OLD.dataset_id;
    END LOOP;
    DELETE FROM ONLY dbanon.fix_code f WHERE f.dataset_id = OLD.dataset_id AND NOT EXISTS (
        SELECT FROM ONLY dbanon.release l JOIN ONLY dbanon.run r ON r.run_id = l.run_id WHERE r.dataset_id = OLD.dataset_id);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.delete_dataset_rows IS 'Deletes everything that was loaded into a deleted dataset.';

CREATE OR REPLACE FUNCTION dbanon_internal.delete_rows(run_id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    source text;
    found_some boolean;
BEGIN
    FOREACH source IN ARRAY dbanon_internal.list_run_tables() LOOP
        -- Mostly there are none; then this waits for no session that has locked the tables.
        EXECUTE format('SELECT EXISTS (SELECT FROM dbanon.%I s WHERE s.run_id = $1)', source) INTO found_some USING run_id;
        IF found_some THEN
            EXECUTE format('DELETE FROM dbanon.%I s WHERE s.run_id = $1', source) USING run_id;
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.delete_rows IS 'Deletes what a run wrote: its rows in all of dbanon_internal.list_run_tables.';

CREATE OR REPLACE FUNCTION dbanon_internal.delete_run_rows() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM dbanon_internal.delete_rows(OLD.run_id);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.delete_run_rows IS 'Deletes what a deleted run wrote (a run with a release cannot be deleted).';

CREATE OR REPLACE FUNCTION dbanon_internal.guard_run_rows() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    touched bigint[];
    there bigint[];
    released bigint;
BEGIN
    IF TG_OP = 'INSERT' THEN
        touched := ARRAY(SELECT DISTINCT added.run_id FROM added);
    ELSIF TG_OP = 'DELETE' THEN
        touched := ARRAY(SELECT DISTINCT changed.run_id FROM changed);
    ELSIF TG_OP = 'UPDATE' THEN
        touched := ARRAY(SELECT added.run_id FROM added UNION SELECT changed.run_id FROM changed);
    ELSIF current_setting('transaction_isolation') <> 'read committed' THEN  -- there may be a release that it does not see
        RAISE EXCEPTION 'Table dbanon.% must be emptied in a transaction that is read committed. This one is %.', TG_TABLE_NAME,
                current_setting('transaction_isolation')
            USING ERRCODE = 'DA015', DETAIL = 'Cloaks and members of a run that was ever published must stay.',
                  HINT = 'Begin another: BEGIN ISOLATION LEVEL READ COMMITTED;';
    ELSE
        touched := ARRAY(SELECT rel.run_id FROM ONLY dbanon.release rel);
    END IF;
    -- dbanon.publish holds these rows for itself from the digest to the end of the copy: a writer waits here, then sees
    -- the release; and publish waits for a writer that was first.
    there := ARRAY(SELECT locked.run_id FROM (SELECT run.run_id FROM ONLY dbanon.run run WHERE run.run_id = ANY (touched)
                                              ORDER BY run.run_id FOR SHARE) locked);
    IF TG_OP IN ('INSERT', 'UPDATE') AND cardinality(there) < cardinality(touched) THEN
        RAISE EXCEPTION 'Rows of dbanon.% must belong to a run that exists.', TG_TABLE_NAME
            USING ERRCODE = 'DA009', DETAIL = format('Of %s, %s.', dbanon_internal.format_quantity(cardinality(touched), 'run'),
                dbanon_internal.format_quantity(cardinality(there), 'exists', 'exist')),
                  HINT = 'Insert the run into dbanon.run first.';
    END IF;
    -- Of a dataset that was dropped, and of a part that was withdrawn, what releases promised is in dbanon.grouping.
    SELECT min(rel.run_id) INTO released FROM ONLY dbanon.release rel
        WHERE rel.run_id = ANY (touched) AND NOT (TG_OP = 'DELETE' AND (rel.series_id IS NOT NULL AND rel.withdrawn_at IS NOT NULL OR EXISTS (
            SELECT FROM ONLY dbanon.run run JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
            WHERE run.run_id = rel.run_id AND dat.dropped_at IS NOT NULL)));
    IF released IS NOT NULL THEN
        RAISE EXCEPTION 'Cloaks and members of a run that was ever published must stay. Run % was, and % of % was tried.',
                released, TG_OP, TG_TABLE_NAME
            USING ERRCODE = 'DA007', DETAIL = format('Run %s has a release.', released),
                  HINT = 'Start another run: CALL dbanon.anonymize(...).';
    END IF;
    IF TG_TABLE_NAME = 'record' AND TG_OP IN ('INSERT', 'UPDATE') THEN
        -- Regions and periods are numbered from 1 and written first, so the greatest number is enough to look at.
        PERFORM FROM (SELECT added.run_id, max(ele.period_no) AS period_no, max(ele.region_no) AS region_no
                      FROM added CROSS JOIN LATERAL unnest(added.periods, added.regions) ele (period_no, region_no) GROUP BY added.run_id) high
            WHERE high.period_no > coalesce((SELECT max(per.period_no) FROM ONLY dbanon.period per WHERE per.run_id = high.run_id), 0)
               OR high.region_no > coalesce((SELECT max(reg.region_no) FROM ONLY dbanon.region reg WHERE reg.run_id = high.run_id), 0);
        IF FOUND THEN
            RAISE EXCEPTION 'Rows of dbanon.record must name regions and periods of their run. At least one names another.'
                USING ERRCODE = 'DA009', DETAIL = 'Regions and periods are numbered from 1.',
                      HINT = 'Insert into dbanon.region and dbanon.period first.';
        END IF;
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.guard_run_rows IS
'Keeps what a run that was ever published wrote as it was: an adversary keeps what was published, so its grouping must
stay known permanently; rows of a dropped dataset, or of a part that was withdrawn, may be deleted.';

CREATE OR REPLACE FUNCTION dbanon_internal.guard_run() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM ONLY dbanon.release r WHERE r.run_id = OLD.run_id) THEN
        RAISE EXCEPTION 'The data of a published run must stay. Run % was published.', OLD.run_id
            USING ERRCODE = 'DA007', DETAIL = format('Run %s has a release.', OLD.run_id),
                  HINT = 'Start another run: CALL dbanon.anonymize(...).';
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION dbanon_internal.guard_run IS 'Keeps dataset, method, algorithm, parameters and seed of a run that was ever published.';

CREATE OR REPLACE FUNCTION dbanon_internal.guard_subject() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM ONLY dbanon.dataset d WHERE d.dataset_id = OLD.dataset_id FOR SHARE;  -- a publication that has begun comes first
    IF EXISTS (SELECT FROM ONLY dbanon.release l JOIN ONLY dbanon.run r ON r.run_id = l.run_id WHERE r.dataset_id = OLD.dataset_id) THEN
        RAISE EXCEPTION 'The people of a dataset that was ever published must keep their names. Got an UPDATE of them.'
            USING ERRCODE = 'DA007', DETAIL = 'The groups of one release are compared with those of the next by the names of their people.',
                  HINT = 'To erase a person, call dbanon.forget_subject.';
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION dbanon_internal.guard_subject IS
'Keeps who is who in a dataset that was ever published: under another name, a subject would look new to the measure of
what two releases reveal together.';

CREATE OR REPLACE FUNCTION dbanon_internal.guard_release() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    expected dbanon.release := OLD;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF OLD.withdrawn_at IS NULL THEN
            expected.withdrawn_at := NEW.withdrawn_at;
            expected.withdrawn_by := NEW.withdrawn_by;
        END IF;
        -- dbanon_internal.guard_groups carries the sum on where a person was forgotten.
        IF pg_trigger_depth() > 1 THEN expected.groups_sum := NEW.groups_sum; END IF;
        IF NEW *= expected AND (OLD.withdrawn_at IS NULL OR NEW.groups_sum <> OLD.groups_sum) THEN
            IF NEW.groups_sum <> OLD.groups_sum THEN  -- a trigger of the owner's own may try it as well
                RAISE LOG 'dbanon: % carried groups_sum of release % on', session_user, OLD.release_id;
            END IF;
            RETURN NEW;
        END IF;
    END IF;
    RAISE LOG 'dbanon: % was refused % on dbanon.release', session_user, TG_OP;
    RAISE EXCEPTION 'Table dbanon.release must only grow, and a release be withdrawn once. Got another %.', TG_OP
        USING ERRCODE = 'DA006', DETAIL = 'An adversary knows published rows permanently.',
              HINT = 'Use dbanon.publish and dbanon.unpublish.';
END
$$;
COMMENT ON FUNCTION dbanon_internal.guard_release IS 'Keeps dbanon.release append-only: a release may be withdrawn once, and a trigger carries groups_sum on.';

CREATE OR REPLACE FUNCTION dbanon_internal.guard_series() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    expected dbanon.series := OLD;
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.withdrawn_at IS NULL THEN
        expected.withdrawn_at := NEW.withdrawn_at;
        expected.withdrawn_by := NEW.withdrawn_by;
        IF NEW *= expected THEN RETURN NEW; END IF;
    END IF;
    RAISE LOG 'dbanon: % was refused % on dbanon.series', session_user, TG_OP;
    RAISE EXCEPTION 'Table dbanon.series must only grow, and a release that grows be withdrawn once. Got another %.', TG_OP
        USING ERRCODE = 'DA006', DETAIL = 'Its parts must agree with their release.', HINT = 'Use dbanon.publish and dbanon.unpublish.';
END
$$;
COMMENT ON FUNCTION dbanon_internal.guard_series IS 'Keeps dbanon.series append-only: a release that grows may be withdrawn once.';

CREATE OR REPLACE FUNCTION dbanon_internal.refuse_change() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE LOG 'dbanon: % was refused % on %.%', session_user, TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME;
    RAISE EXCEPTION 'A release must stay as it was published. Got % on its table.', TG_OP
        USING ERRCODE = 'DA006', DETAIL = format('Table %I.%I.', TG_TABLE_SCHEMA, TG_TABLE_NAME),
              HINT = coalesce(
                  (SELECT format('Withdraw it with %s and publish another run.', dbanon_internal.build_withdrawal(l))
                   FROM ONLY dbanon.release l WHERE TG_TABLE_NAME = format('release_%s', l.release_id)),
                  'Withdraw the release, and publish another run.');
END
$$;
COMMENT ON FUNCTION dbanon_internal.refuse_change IS 'Refuses every change of a release''s own table.';

CREATE OR REPLACE FUNCTION dbanon_internal.guard_part() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- A key says of which part its row is. No key of another release has these upper bits in the table of this series.
    PERFORM FROM (SELECT DISTINCT changed.cloak_id >> 32 AS prefix FROM changed) pre
        WHERE NOT EXISTS (
            SELECT FROM ONLY dbanon.release rel JOIN pg_inherits inh ON inh.inhparent = to_regclass(format('dbanon.series_%s', rel.series_id))
            WHERE rel.prefix = pre.prefix AND rel.withdrawn_at IS NOT NULL AND inh.inhrelid = TG_RELID);
    IF FOUND THEN
        RAISE LOG 'dbanon: % was refused % on %.%', session_user, TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME;
        RAISE EXCEPTION 'A release must stay as it was published. Got % on its table.', TG_OP
            USING ERRCODE = 'DA006', DETAIL = format('Table %I.%I.', TG_TABLE_SCHEMA, TG_TABLE_NAME),
                  HINT = 'Withdraw a part with SELECT dbanon.unpublish_part(...).';
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.guard_part IS 'Refuses to delete rows of parts that are live.';
