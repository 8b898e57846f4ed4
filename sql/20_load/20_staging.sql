-- Where a load of trajectories begins, for files and tables alike: the dataset is claimed, what was asked for is checked, and the
-- staging tables are made. dbanon_internal.finish_load (20_load/50_import.sql) ends it.

CREATE OR REPLACE FUNCTION dbanon_internal.demand_dataset_options(asked dbanon_internal.loading) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- What cannot be seen makes two names look like one.
    IF asked.dataset IS NULL OR btrim(asked.dataset) = '' OR length(asked.dataset) > 200
        OR asked.dataset ~ dbanon_internal.build_hidden_pattern() THEN
        RAISE EXCEPTION 'A dataset must have a name of 1 to 200 visible characters. Got another.'
            USING ERRCODE = 'DA011', DETAIL = 'Blanks are allowed, and a name of only blanks is not.', HINT = 'Choose one such as taxi.';
    ELSIF asked.mode IS NULL OR asked.mode NOT IN ('create', 'append', 'replace', 'new') THEN
        RAISE EXCEPTION 'The mode of a load must be create, append, replace or new. Got %.', coalesce(dbanon_internal.quote_text(asked.mode), 'NULL')
            USING ERRCODE = 'DA011', DETAIL = 'They make a dataset, add to it, empty it first, or add missing rows.', HINT = 'Choose one of the four.';
    ELSIF asked.grid_m IS NULL OR NOT (asked.grid_m > 0 AND asked.grid_m <= 1000000) THEN
        RAISE EXCEPTION 'The space grid must be a number of metres above 0, and at most 1,000,000. Got %.', coalesce(asked.grid_m::text, 'NULL')
            USING ERRCODE = 'DA011', DETAIL = 'Positions are cells of the grid.', HINT = 'Leave it out for grid_m => 1, or choose another.';
    ELSIF asked.grid_s IS NULL OR NOT (asked.grid_s > 0 AND asked.grid_s <= 604800 AND asked.grid_s = trunc(asked.grid_s)) THEN
        RAISE EXCEPTION 'The time grid must be a whole number of seconds above 0, and at most 604,800. Got %.',
                coalesce(asked.grid_s::text, 'NULL')
            USING ERRCODE = 'DA011', DETAIL = 'Times are slots of the grid.', HINT = 'Leave it out for grid_s => 1, or choose another.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_dataset_options IS 'Refuses what no dataset can be called or have for a grid.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_day_zone(asked dbanon_internal.loading) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- Midnight is that of the zone of times that name none.
    SELECT CASE WHEN (asked).subject_per_day THEN coalesce((asked).tz, 'UTC') END
$$;
COMMENT ON FUNCTION dbanon_internal.find_day_zone IS 'The time zone in which a load cuts subjects into days; NULL where it does not.';

CREATE OR REPLACE FUNCTION dbanon_internal.makes_dataset(asked dbanon_internal.loading) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT (asked).mode IN ('create', 'new') AND NOT EXISTS (
        SELECT FROM dbanon.dataset d WHERE d.name = (asked).dataset AND d.dropped_at IS NULL)
$$;
COMMENT ON FUNCTION dbanon_internal.makes_dataset IS 'Whether a load makes its dataset.';

CREATE OR REPLACE FUNCTION dbanon_internal.claim_dataset(asked dbanon_internal.loading, day_zone text) RETURNS dbanon.dataset
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old dbanon.dataset;
    alone CONSTANT boolean := coalesce(asked.subject = '-', false);
    word text;
    releases bigint;
BEGIN
    PERFORM dbanon_internal.demand_dataset_options(asked);
    PERFORM dbanon_internal.demand_population_options(asked.population, asked.settle_s);
    PERFORM dbanon_internal.lock_dataset(asked.dataset);
    IF asked.mode = 'create' OR dbanon_internal.makes_dataset(asked) THEN
        IF NOT dbanon_internal.makes_dataset(asked) THEN
            RAISE EXCEPTION 'A new dataset must have a new name. There is a ''%'' already.', asked.dataset
                USING ERRCODE = 'DA011', DETAIL = 'A dataset is known by its name.',
                      HINT = 'Add to it with mode => ''append'' or replace its trajectories with mode => ''replace''.';
        END IF;
        RETURN NULL;
    END IF;
    IF asked.mode <> 'new' AND NOT EXISTS (SELECT FROM dbanon.dataset dat WHERE dat.name = asked.dataset AND dat.dropped_at IS NULL) THEN
        RAISE EXCEPTION 'A dataset to add to or replace must exist. There is none named ''%''.', asked.dataset
            USING ERRCODE = 'DA001', DETAIL = 'A load makes a dataset where nothing is said of one that exists.',
                  HINT = concat_ws(' ', format('To make it, leave out mode => %L.', asked.mode),
                                   dbanon_internal.choose_one(ARRAY(SELECT dat.name FROM dbanon.dataset dat WHERE dat.dropped_at IS NULL)));
    END IF;
    old := dbanon_internal.demand_dataset(asked.dataset);
    IF asked.mode IN ('append', 'new') THEN
        word := CASE WHEN asked.srid <> old.srid THEN format('SRID %s. Got %s', old.srid, asked.srid)
                     WHEN asked.grid_m NOT IN (1, old.grid_m) THEN format('grid_m %s. Got %s', old.grid_m, asked.grid_m)
                     WHEN asked.grid_s NOT IN (1, old.grid_s) THEN format('grid_s %s. Got %s', old.grid_s, asked.grid_s) END;
        IF word IS NOT NULL THEN
            RAISE EXCEPTION 'Added data must be on the dataset''s grid. ''%'' has %.', asked.dataset, word
                USING ERRCODE = 'DA011', DETAIL = 'A dataset has one grid and one reference system.', HINT = 'Leave it out.';
        ELSIF day_zone <> coalesce(old.day_zone, '') THEN
            RAISE EXCEPTION 'Added data must be cut into days as the dataset is. ''%'' has %. Got %.', asked.dataset,
                    coalesce('days of ' || old.day_zone, 'whole subjects'), coalesce('days of ' || nullif(day_zone, ''), 'whole subjects')
                USING ERRCODE = 'DA011', DETAIL = 'A dataset is cut in one time zone, or not at all.',
                      HINT = 'Leave out subject_per_day => true: added data are cut as the dataset is.';
        ELSIF alone <> old.own_subjects THEN
            -- A number that stands for one row could be the name of a person.
            RAISE EXCEPTION 'Added data must name people as the dataset does. In ''%'' %, and in the added data %.', asked.dataset,
                    dbanon_internal.describe_naming(old.own_subjects), dbanon_internal.describe_naming(alone)
                USING ERRCODE = 'DA011', DETAIL = 'People are counted by name.',
                      HINT = 'Load it into a separate dataset.';
        END IF;
        RETURN dbanon_internal.set_people(old, asked);
    END IF;
    -- Replacing is left: the runs go with the data, which those that were published must not.
    SELECT count(*) INTO releases FROM dbanon.release rel JOIN dbanon.run run USING (run_id) WHERE run.dataset_id = old.dataset_id;
    IF releases > 0 THEN
        RAISE EXCEPTION 'A dataset to replace must have no releases, since published rows stay known. ''%'' has %, withdrawn ones included.',
                asked.dataset, releases
            USING ERRCODE = 'DA011', DETAIL = 'The published groups must stay known here, too.',
                  HINT = 'Add to it with mode => ''append''. The same people in another dataset are compared with these releases, too.';
    END IF;
    RETURN dbanon_internal.set_people(old, asked);
END
$$;
COMMENT ON FUNCTION dbanon_internal.claim_dataset IS
'Keeps others from loading into a dataset until the transaction ends, and gives one that exists the population and settle time named. Raises an error
if the mode, the grid, the days or the naming of people do not fit it.';

CREATE OR REPLACE FUNCTION dbanon_internal.write_dataset(asked dbanon_internal.loading, target integer) RETURNS dbanon.dataset
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    dataset dbanon.dataset;
    alone CONSTANT boolean := coalesce(asked.subject = '-', false);
    zone CONSTANT text := dbanon_internal.find_day_zone(asked);
    sites bigint;
BEGIN
    IF dbanon_internal.makes_dataset(asked) THEN
        INSERT INTO dbanon.dataset AS dat (name, srid, grid_m, grid_s, day_zone, population_id, settle_s, own_subjects)
        VALUES (asked.dataset, target, asked.grid_m, asked.grid_s, zone,
                dbanon_internal.find_or_add_population(coalesce(asked.population, 'default')), coalesce(asked.settle_s, 900), alone)
        RETURNING dat.* INTO dataset;
        RETURN dataset;
    END IF;
    dataset := dbanon_internal.demand_dataset(asked.dataset);
    IF asked.mode IN ('append', 'new') THEN RETURN dataset; END IF;
    -- Sites stay, and are stored in metres of the dataset's reference system.
    SELECT count(*) INTO sites FROM dbanon.site site WHERE site.dataset_id = dataset.dataset_id;
    IF sites > 0 AND target <> dataset.srid THEN
        RAISE EXCEPTION 'A dataset must stay in the reference system of its sites. ''%'' has % in SRID % and would be in %.',
                asked.dataset, sites, dataset.srid, target
            USING ERRCODE = 'DA011', DETAIL = 'Sites stay when trajectories are replaced.',
                  HINT = format('Give srid => %s.', dataset.srid);
    END IF;
    -- Runs describe the data that go; drop_run refuses those that are published or being worked on.
    PERFORM dbanon.drop_run(run.run_id) FROM dbanon.run run WHERE run.dataset_id = dataset.dataset_id ORDER BY run.run_id;
    DELETE FROM dbanon.trajectory tra WHERE tra.dataset_id = dataset.dataset_id;
    UPDATE dbanon.dataset dat SET srid = target, grid_m = asked.grid_m, grid_s = asked.grid_s, day_zone = zone, own_subjects = alone
    WHERE dat.dataset_id = dataset.dataset_id AND (dat.srid, dat.grid_m, dat.grid_s, dat.day_zone, dat.own_subjects) IS DISTINCT FROM (
        target, asked.grid_m, asked.grid_s, zone, alone);
    RETURN dbanon_internal.demand_dataset(asked.dataset);
END
$$;
COMMENT ON FUNCTION dbanon_internal.write_dataset IS
'Creates a dataset that was claimed, or empties it of trajectories and runs to replace it, while what else was loaded into it stays; returns its row.
Raises an error if its sites are in another reference system, or if a run of it is being worked on.';

-- ---- staged rows
--
-- Staged rows are in pg_temp.dbanon_staged (its first columns are file, line), those left out in pg_temp.dbanon_rejected (file, line, reason,
-- content).

CREATE OR REPLACE FUNCTION dbanon_internal.make_staging(columns text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old text;
BEGIN
    -- Two loads may be of one transaction.
    FOREACH old IN ARRAY ARRAY['pg_temp.dbanon_staged', 'pg_temp.dbanon_rejected', 'pg_temp.dbanon_before'] LOOP
        IF to_regclass(old) IS NOT NULL THEN
            EXECUTE 'DROP TABLE ' || old;
        END IF;
    END LOOP;
    EXECUTE format('CREATE TEMP TABLE dbanon_staged (file integer, line bigint, t double precision, %s, repeated boolean) ON COMMIT DROP', columns);
    CREATE TEMP TABLE dbanon_rejected (file integer, line bigint, reason text, content jsonb, t double precision) ON COMMIT DROP;
    CREATE TEMP TABLE dbanon_before (quarantine_id bigint, reason text, content jsonb, subject text COLLATE "C", t double precision) ON COMMIT DROP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.make_staging IS
'Makes the temporary tables of a load, empty, with a column t for unix seconds and one that says whether that may be of an hour that comes twice; they
end with the transaction.';

CREATE OR REPLACE FUNCTION dbanon_internal.leave_out_marked(but text DEFAULT '') RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    WITH gone AS (DELETE FROM pg_temp.dbanon_staged sta WHERE sta.reason <> but RETURNING sta.*)
    INSERT INTO pg_temp.dbanon_rejected SELECT gone.file, gone.line, gone.reason, gone.content, gone.t FROM gone;
END
$$;
COMMENT ON FUNCTION dbanon_internal.leave_out_marked IS 'Moves the staged rows with a reason against them, but for one reason, to those left out.';

CREATE OR REPLACE FUNCTION dbanon_internal.copy_staged(
    cells jsonb, subject text, trip text, t double precision, x double precision, y double precision, shape @postgis@.geometry)
RETURNS TABLE (content jsonb) LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT ROWS 1
BEGIN ATOMIC
    SELECT jsonb_object_agg(cel.key, CASE cel.value WHEN 'subject' THEN subject WHEN 'trip' THEN trip WHEN 't' THEN t::text
        WHEN 'x' THEN x::text WHEN 'y' THEN y::text ELSE coalesce(@postgis@.ST_AsText(shape), 'POINT(' || x || ' ' || y || ')') END)
    FROM jsonb_each_text(cells) cel;
END;
COMMENT ON FUNCTION dbanon_internal.copy_staged IS 'What was read of a staged fix, by the names of the columns it was read from.';

CREATE OR REPLACE FUNCTION dbanon_internal.is_reported(line bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN line % 100000 = 0;
COMMENT ON FUNCTION dbanon_internal.is_reported IS 'Whether other sessions are shown that a load has come to a row.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_usable_rows(
    rows_read bigint, remedy text, may_be_none boolean DEFAULT false, cells jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lost bigint;
    counts text;
    known boolean;
    expected boolean;
BEGIN
    -- Rows left out by reason. If all were left out as repetitions, the same file was loaded before.
    SELECT coalesce(sum(tally.n), 0), string_agg(format('%s %s', tally.n, tally.reason), ', ' ORDER BY tally.reason),
        bool_and(tally.reason LIKE 'duplicate-%' OR tally.reason = 'contradicting-fix'),
        bool_or(tally.reason NOT IN ('no-time', 'outside-period') AND (
            tally.reason = ANY (dbanon_internal.list_counted_reasons() || '{future-time,too-fast}'::text[]) OR tally.reason LIKE 'duplicate-%'))
    INTO lost, counts, known, expected
    FROM (SELECT rej.reason, count(*) AS n FROM pg_temp.dbanon_rejected rej GROUP BY rej.reason) tally;
    -- Where what is new is looked for there may be nothing, but what was there must not be unusable.
    IF lost < rows_read OR (may_be_none AND (rows_read = 0 OR expected)) THEN
        RETURN;
    ELSIF known THEN
        RAISE EXCEPTION 'There is nothing to add. The dataset already has all rows of % (%).',
                dbanon_internal.format_quantity(rows_read, 'row'), counts
            USING ERRCODE = 'DA012', DETAIL = format('%s read.', dbanon_internal.format_quantity(rows_read, 'row was', 'rows were')),
                  HINT = 'If the source was loaded before, there is nothing to do.';
    END IF;
    RAISE EXCEPTION 'At least one row must be usable. Got %, none usable%.',
            dbanon_internal.format_quantity(rows_read, 'row'), coalesce(' (' || counts || ')', '')
        USING ERRCODE = 'DA012', DETAIL = format('%s read.', dbanon_internal.format_quantity(rows_read, 'row was', 'rows were')),
              HINT = coalesce(dbanon_internal.describe_first_cell(cells), remedy)
                  || CASE WHEN counts LIKE '%future-time%' THEN ' Load rows of the future with allow_future => true.' ELSE '' END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_usable_rows IS
'Refuses a load of which nothing is left, and counts the reasons; where there may be nothing new, only one of which no row could be used.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_unswapped(rows_read bigint[], remedy text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    swapped bigint;
BEGIN
    SELECT tally.n INTO swapped
    FROM (SELECT rej.file, count(*) AS n FROM pg_temp.dbanon_rejected rej WHERE rej.reason = 'swapped-axes' GROUP BY rej.file) tally
    WHERE 2 * tally.n > rows_read[tally.file + 1] LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'x must be the longitude or easting and y the latitude or northing.'
            USING ERRCODE = 'DA011', DETAIL = format('%s them the other way round.', dbanon_internal.format_quantity(swapped, 'row has', 'rows have')),
                  HINT = remedy;
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_unswapped IS 'Refuses a load of which most rows of a file have x and y the wrong way round.';

CREATE OR REPLACE FUNCTION dbanon_internal.report_stage(stage text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE DEBUG USING MESSAGE = stage, ERRCODE = 'DA018';
    PERFORM dbanon_internal.report_rows(stage);
END
$$;
COMMENT ON FUNCTION dbanon_internal.report_stage IS 'Reports the stage of a load, to callers that set client_min_messages to debug1, and to other sessions.';

CREATE OR REPLACE FUNCTION dbanon_internal.report_rows(stage text, done bigint DEFAULT NULL, total double precision DEFAULT NULL) RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- Any login may read it, so rows have two digits, as the planner's estimates have them, and few rows are not counted. The server
    -- cuts the text after 63 bytes.
    SELECT CASE WHEN set_config('application_name', concat_ws(', ', 'dbanon: ' || left(stage, 25),
        CASE WHEN done >= 1000 THEN to_char(round(done::numeric, 2 - length(done::text)), 'FM999,999,999,999') || ' rows'
            || CASE WHEN total >= done THEN format(' (%s %%)', floor(100 * done / total)) ELSE '' END END,
        floor(extract(epoch FROM clock_timestamp() - now())) || ' s'), true) IS NULL THEN 'null'::jsonb END
$$;
COMMENT ON FUNCTION dbanon_internal.report_rows IS
'Shows other sessions the stage of a load, its rows and the seconds since it began, as the name of the application in pg_stat_activity, and returns NULL.';

CREATE OR REPLACE FUNCTION dbanon_internal.raise_notice(notice text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF notice IS NOT NULL THEN
        RAISE NOTICE USING MESSAGE = notice, ERRCODE = 'DA018';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.raise_notice IS 'Raises a notice with the text, unless it is null.';

CREATE OR REPLACE FUNCTION dbanon_internal.begin_load(
    asked dbanon_internal.loading, OUT source_srid integer, OUT geographic boolean, OUT first_number bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old dbanon.dataset;
    reference_system record;
BEGIN
    IF asked.subject_per_day AND asked.subject = '-' THEN
        RAISE EXCEPTION 'Only people with names must be cut into days. Got ''-'' for the column of people.'
            USING ERRCODE = 'DA011', DETAIL = 'It makes every row a separate person.',
                  HINT = 'Name the column of people, or leave out subject_per_day => true.';
    ELSIF NOT asked.split_gap_s > 0 OR asked.split_gap_s = 'NaN' THEN
        RAISE EXCEPTION 'The gap that splits must be seconds above 0. Got %.', asked.split_gap_s
            USING ERRCODE = 'DA011', DETAIL = 'Paths are cut where more seconds lie between two fixes.',
                  HINT = 'Change it to one such as split_gap_s => 3600, or leave it out.';
    ELSIF NOT asked.max_speed_kmh > 0 OR asked.max_speed_kmh = 'NaN' THEN
        RAISE EXCEPTION 'The greatest speed must be kilometres an hour above 0. Got %.', asked.max_speed_kmh
            USING ERRCODE = 'DA011', DETAIL = 'Fixes are counted that imply more from the fix before.',
                  HINT = 'Change it to one such as max_speed_kmh => 200, or leave it out.';
    END IF;
    PERFORM dbanon_internal.demand_window(asked);
    PERFORM dbanon_internal.report_rows('reading');
    -- The dataset first, so that two loads of one name do not both read a large source.
    old := dbanon_internal.claim_dataset(asked, dbanon_internal.find_day_zone(asked));
    reference_system := dbanon_internal.demand_reference_system(asked.crs);
    PERFORM dbanon_internal.demand_box(asked.bbox, reference_system.geographic);
    PERFORM dbanon_internal.demand_metric(CASE WHEN asked.mode IN ('append', 'new') THEN coalesce(old.srid, asked.srid) ELSE asked.srid END);
    source_srid := reference_system.srid;
    geographic := reference_system.geographic;
    SELECT coalesce(sum(load.rows_read), 0) + 1 INTO first_number FROM dbanon.load load WHERE load.dataset_id = old.dataset_id;
    -- "C" compares bytes: the fastest order there is, and any will do.
    PERFORM dbanon_internal.make_staging('x float8, y float8, subject text COLLATE "C", trip text COLLATE "C", '
                                'shape @postgis@.geometry, place @postgis@.geometry, reason text, content jsonb');
    -- Two loads may be of one transaction.
    IF to_regclass('pg_temp.dbanon_suspect') IS NOT NULL THEN
        DROP TABLE pg_temp.dbanon_suspect;
    END IF;
    CREATE TEMP TABLE dbanon_suspect (file integer, line bigint, subject text COLLATE "C", trip text COLLATE "C",
        t double precision, x double precision, y double precision, content jsonb) ON COMMIT DROP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.begin_load IS
'Claims the dataset for a load of trajectories, and makes the staging tables. Raises an error if an option is out of
its bounds, or does not fit the dataset.';
